// Templates: the catalogue of sites a partner can deploy, the facts of one deployment, and its request. The sources of
// each template are in worker/sites/templates/<slug>/.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, nullable, timestamp } from './fields/fields.ts'

/** All templates. A change of its appearance or words raises a template's version. */
export const catalogue = [
  {
    slug: 'horizon',
    name: 'Horizon',
    description: 'A light, airy landing page: a wide opening in your colour, three promises, contracts and risk.',
    previewColor: '#1f6feb',
    version: '1.0.0'
  },
  {
    slug: 'midnight',
    name: 'Midnight',
    description: 'A dark page built around a market chart, for desks that live on synthetic indices.',
    previewColor: '#2dd4bf',
    version: '1.0.0'
  },
  {
    slug: 'bulletin',
    name: 'Bulletin',
    description: 'An editorial page that explains the contracts in plain words, with questions and answers.',
    previewColor: '#c2410c',
    version: '1.0.0'
  }
] as const

export type TemplateSlug = (typeof catalogue)[number]['slug']
export type TemplateFacts = (typeof catalogue)[number]

/** The template of that name, or undefined. */
export function findTemplate(slug: string): TemplateFacts | undefined {
  return catalogue.find(template => template.slug === slug)
}

const color = {
  type: 'string',
  pattern: '^#[0-9a-fA-F]{6}$',
  maxLength: 7,
  description: "Brand colour, '#' and six hex digits.",
  examples: ['#1f6feb']
} as const

const templateSlug = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  description: 'Name of the template in addresses.',
  examples: ['horizon']
} as const

const tenantSlug = {
  type: 'string',
  minLength: 3,
  maxLength: 32,
  pattern: '^[a-z0-9][a-z0-9-]*[a-z0-9]$',
  description: "The site's name in its address: lower-case letters, digits and hyphens.",
  examples: ['acme-markets']
} as const

const brandName = {
  type: 'string',
  minLength: 2,
  maxLength: 60,
  // Something to read, and nothing that is not text.
  pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]+$',
  description: 'Name shown on the site.',
  examples: ['Acme Markets']
} as const

const contactEmail = {
  type: 'string',
  format: 'email',
  maxLength: 254,
  description: 'Address shown on the site.',
  examples: ['hello@acme.example']
} as const

export const Template = {
  type: 'object',
  additionalProperties: false,
  required: ['slug', 'name', 'description', 'previewColor', 'version'],
  properties: {
    slug: templateSlug,
    name: { type: 'string', description: 'Name of the template.', examples: ['Horizon'] },
    description: { type: 'string', description: 'What it looks like.', examples: ['A light, airy landing page.'] },
    previewColor: { ...color, description: 'The colour a site gets when none is given.' },
    version: { type: 'string', description: "The template's version.", examples: ['1.0.0'] }
  }
} as const
export type Template = FromSchema<typeof Template>

export const TemplateList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'Every template there is.', items: Template } }
} as const

export const TemplatePath = {
  type: 'object',
  required: ['slug'],
  properties: { slug: templateSlug }
} as const
export type TemplatePath = FromSchema<typeof TemplatePath>

export const NewDeployment = {
  type: 'object',
  required: ['tenantSlug', 'brandName'],
  properties: { tenantSlug, brandName, primaryColor: color, contactEmail },
  examples: [
    {
      tenantSlug: 'acme-markets',
      brandName: 'Acme Markets',
      primaryColor: '#1f6feb',
      contactEmail: 'hello@acme.example'
    }
  ]
} as const
export type NewDeployment = FromSchema<typeof NewDeployment>

export const Deployment = {
  type: 'object',
  additionalProperties: false,
  required: [
    'deploymentId',
    'slug',
    'tenantSlug',
    'brandName',
    'primaryColor',
    'contactEmail',
    'status',
    'url',
    'createdAt'
  ],
  properties: {
    deploymentId: idField('dep', 'Identifier of the deployment.'),
    slug: templateSlug,
    tenantSlug,
    brandName,
    primaryColor: { ...color, description: "The brand colour in use; the template's own when none was given." },
    contactEmail: nullable(contactEmail),
    status: {
      type: 'string',
      enum: ['QUEUED', 'LIVE', 'FAILED'],
      description:
        'QUEUED: being rendered. LIVE: served at url. FAILED: could not be rendered. A site that was LIVE is served as it was until a newer deployment is LIVE.',
      examples: ['LIVE']
    },
    url: {
      type: 'string',
      description: 'Where the site is served.',
      examples: ['https://api.example.com/sites/acme-markets/']
    },
    createdAt: { ...timestamp, description: 'When the site was first deployed.' }
  }
} as const
export type Deployment = FromSchema<typeof Deployment>

export const DeploymentList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: "The partner's sites, newest first.", items: Deployment } }
} as const

// Templates: the catalogue, and deploying one as a site. A worker renders it; api/sites/sites.ts serves it.

import { deploySite, listDeployments, presentDeployment } from '../../db/community/templates.ts'
import { WORK } from '../../db/platform/bus.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import {
  catalogue,
  Deployment,
  DeploymentList,
  findTemplate,
  NewDeployment,
  type Template,
  TemplateList,
  TemplatePath
} from '../../schemas/templates.ts'
import type { Operation } from '../operation.ts'

export const listTemplates: Operation<object> = {
  name: 'listTemplates',
  method: 'GET',
  path: '/v1/templates',
  tag: 'Templates',
  summary: 'The catalogue of sites',
  description: 'Every template that can be deployed.',
  auth: 'key',
  scope: 'templates:read',
  response: TemplateList,
  errors: [],
  async handle(): Promise<{ data: Template[] }> {
    return {
      data: catalogue.map(({ slug, name, description, previewColor, version }) => ({
        slug,
        name,
        description,
        previewColor,
        version
      }))
    }
  }
}

export const deployTemplate: Operation<{ params: TemplatePath; body: NewDeployment }> = {
  name: 'deployTemplate',
  method: 'POST',
  path: '/v1/templates/{slug}/deploy',
  tag: 'Templates',
  summary: 'Deploy a template as a site',
  description:
    "Returns QUEUED at once; GET /v1/templates/mine shows when the site is LIVE at its url. A tenantSlug belongs to the partner who deployed it first: deploying to one's own again, with this template or another, replaces that site under the same deploymentId, and the old one is served until the new one is ready. A partner has at most 100 sites.",
  auth: 'key',
  scope: 'templates:write',
  params: TemplatePath,
  body: NewDeployment,
  response: Deployment,
  atomic: true,
  errors: ['NOT_FOUND', 'TENANT_SLUG_TAKEN', 'LIMIT_REACHED'],
  async handle({ partner, params, body }, { db, queue, bus, config }): Promise<Deployment> {
    const template = findTemplate(params.slug)
    if (!template) throw new ApiError('NOT_FOUND', 'There is no such template; see GET /v1/templates.')
    const deployment = await db.transaction(trx =>
      deploySite(trx, queue, {
        partnerId: partner.partnerId,
        test: partner.testOf !== null,
        template: template.slug,
        tenantSlug: body.tenantSlug,
        brandName: body.brandName,
        primaryColor: body.primaryColor ?? template.previewColor,
        contactEmail: body.contactEmail ?? null
      })
    )
    bus.publish(WORK, 'template.deploy', 'new')
    return presentDeployment(deployment, config)
  }
}

export const listMyDeployments: Operation<object> = {
  name: 'listMyDeployments',
  method: 'GET',
  path: '/v1/templates/mine',
  tag: 'Templates',
  summary: "The partner's sites",
  description: 'Newest first.',
  auth: 'key',
  scope: 'templates:read',
  response: DeploymentList,
  errors: [],
  async handle({ partner }, { db, config }): Promise<{ data: Deployment[] }> {
    const deployments = await listDeployments(db, partner.partnerId)
    return { data: deployments.map(deployment => presentDeployment(deployment, config)) }
  }
}

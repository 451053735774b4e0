// Deployments of templates, and the files of the sites they became.
import { createHash } from 'node:crypto'
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { Deployment } from '../../schemas/templates.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows } from '../postgres/connection.ts'

// Enough for every brand of an operator; a name is unique among all partners.
const MAX_SITES = 100

export interface DeploymentRecord {
  deploymentId: string
  partnerId: string
  /** Whether it is of a test side, whose sites have addresses of their own. */
  test: boolean
  template: string
  tenantSlug: string
  brandName: string
  primaryColor: string
  contactEmail: string | null
  status: Deployment['status']
  /** Counts the deployments to this address. */
  revision: number
  createdAt: Date
}

/** A deployment as it is stored: its site's name is the one in its address. */
type DeploymentRow = Omit<DeploymentRecord, 'test' | 'tenantSlug'> & { address: string }

const columns = `id as "deploymentId", partner_id as "partnerId", template, tenant_slug as address, brand_name as "brandName",
  primary_color as "primaryColor", contact_email as "contactEmail", status, revision, created_at as "createdAt"`

// What precedes the names of test sides' sites: no other name can begin with it.
const OF_TEST_SIDE = 'test~'

/** A site's name as its partner knows it, from the one in its address. */
export function siteOf(name: string): { test: boolean; tenantSlug: string } {
  const test = name.startsWith(OF_TEST_SIDE)
  return { test, tenantSlug: test ? name.slice(OF_TEST_SIDE.length) : name }
}

/** A site's name in its address. */
const addressOf = ({ test, tenantSlug }: { test: boolean; tenantSlug: string }) =>
  `${test ? OF_TEST_SIDE : ''}${tenantSlug}`

const withSite = ({ address, ...row }: DeploymentRow): DeploymentRecord => ({ ...row, ...siteOf(address) })

/** A site as the partner requested it, and its address. */
interface DeploymentTerms {
  partnerId: string
  test: boolean
  template: string
  tenantSlug: string
  brandName: string
  primaryColor: string
  contactEmail: string | null
}

/**
 * Stores a deployment and its job in `trx`. A slug of the partner's own is deployed again under the same
 * id; its site stays as it is until the new one is rendered. Throws TENANT_SLUG_TAKEN when the slug is
 * another partner's, LIMIT_REACHED past 100 sites.
 */
export async function deploySite(trx: Db, queue: Queue, terms: DeploymentTerms): Promise<DeploymentRecord> {
  // One deployment of a partner at a time, so that the count below stays true.
  await trx('partners').where({ id: terms.partnerId }).forNoKeyUpdate().first('id')
  const [row] = await rows<DeploymentRow>(
    trx,
    `insert into deployments (id, partner_id, template, tenant_slug, brand_name, primary_color, contact_email, status)
     values (:id, :partnerId, :template, :address, :brandName, :primaryColor, :contactEmail, 'QUEUED')
     on conflict (tenant_slug) do update
       set template = excluded.template, brand_name = excluded.brand_name, primary_color = excluded.primary_color,
           contact_email = excluded.contact_email, status = 'QUEUED', revision = deployments.revision + 1,
           updated_at = now()
     where deployments.partner_id = excluded.partner_id
     returning ${columns}`,
    { id: newId('deployment'), address: addressOf(terms), ...terms }
  )
  if (!row) throw new ApiError('TENANT_SLUG_TAKEN', `The tenantSlug ${terms.tenantSlug} is taken.`)
  const { count } = (await trx('deployments').where({ partner_id: terms.partnerId }).count('* as count').first()) as {
    count: number
  }
  if (count > MAX_SITES)
    throw new ApiError('LIMIT_REACHED', `A partner has at most ${MAX_SITES} sites.`, { extras: { limit: MAX_SITES } })
  await queue.enqueue(trx, 'template.deploy', [{ deploymentId: row.deploymentId, revision: row.revision }])
  return withSite(row)
}

/** The partner's sites, newest first; there are never more than 100. */
export async function listDeployments(db: Db, partnerId: string): Promise<DeploymentRecord[]> {
  const found = (await db('deployments')
    .select(db.raw(columns))
    .where({ partner_id: partnerId })
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(MAX_SITES)) as DeploymentRow[]
  return found.map(withSite)
}

/** A deployment that still waits to be rendered in that revision. */
export async function findQueuedDeployment(
  db: Db,
  { deploymentId, revision }: { deploymentId: string; revision: number }
): Promise<DeploymentRecord | undefined> {
  const row = (await db('deployments')
    .where({ id: deploymentId, revision, status: 'QUEUED' })
    .first(db.raw(columns))) as DeploymentRow | undefined
  return row && withSite(row)
}

/** A rendered file; `path` is relative to the site, without a leading slash. */
export interface RenderedFile {
  path: string
  contentType: string
  body: Buffer
}

/** Replaces the site's files and makes the deployment LIVE; false when a newer deployment came meanwhile. */
export async function markLive(
  trx: Db,
  { deploymentId, revision }: { deploymentId: string; revision: number },
  files: RenderedFile[]
): Promise<boolean> {
  const taken = await trx('deployments')
    .where({ id: deploymentId, revision, status: 'QUEUED' })
    .update({ status: 'LIVE', updated_at: trx.fn.now() })
  if (taken === 0) return false
  await trx('site_files').where({ deployment_id: deploymentId }).del()
  await trx('site_files').insert(
    files.map(({ path, contentType, body }) => ({
      deployment_id: deploymentId,
      path,
      content_type: contentType,
      body,
      etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
    }))
  )
  return true
}

/** Gives a deployment up; a site that was LIVE before stays as it was. */
export async function markUnrendered(
  db: Db,
  { deploymentId, revision }: { deploymentId: string; revision: number }
): Promise<void> {
  await db('deployments')
    .where({ id: deploymentId, revision, status: 'QUEUED' })
    .update({ status: 'FAILED', updated_at: db.fn.now() })
}

/** Fails deployments that have been QUEUED for an hour: their jobs are long dead. Returns how many. */
export async function failStaleDeployments(db: Db): Promise<number> {
  return db('deployments')
    .where({ status: 'QUEUED' })
    .where('updated_at', '<', db.raw(`now() - interval '1 hour'`))
    .update({ status: 'FAILED', updated_at: db.fn.now() })
}

interface SiteFile {
  contentType: string
  body: Buffer
  etag: string
}

/** Files of sites, several at once, in the order given. Sites of suspended partners are not served. */
export async function findSiteFiles(
  db: Db,
  wanted: { tenantSlug: string; path: string }[]
): Promise<(SiteFile | undefined)[]> {
  const unique = new Map(wanted.map(({ tenantSlug, path }) => [`${tenantSlug}/${path}`, { tenantSlug, path }]))
  const found = await rows<SiteFile & { address: string }>(
    db,
    `select d.tenant_slug || '/' || f.path as address, f.content_type as "contentType", f.body, f.etag
       from jsonb_to_recordset(:wanted::jsonb) as a ("tenantSlug" text, path text)
       join deployments d on d.tenant_slug = a."tenantSlug"
       join partners p on p.id = d.partner_id and p.suspended_at is null
       join site_files f on f.deployment_id = d.id and f.path = a.path`,
    { wanted: JSON.stringify([...unique.values()]) }
  )
  const byAddress = new Map(found.map(file => [file.address, file]))
  return wanted.map(({ tenantSlug, path }) => byAddress.get(`${tenantSlug}/${path}`))
}

/** A deployment as the wire shows it. */
export function presentDeployment(
  row: Omit<DeploymentRecord, 'partnerId' | 'revision'>,
  { baseUrl }: { baseUrl: string }
): Deployment {
  return {
    deploymentId: row.deploymentId,
    slug: row.template,
    tenantSlug: row.tenantSlug,
    brandName: row.brandName,
    primaryColor: row.primaryColor,
    contactEmail: row.contactEmail,
    status: row.status,
    url: `${baseUrl}/sites/${addressOf(row)}/`,
    createdAt: row.createdAt.toISOString()
  }
}

// Deployments become files: a template's page with the partner's name and address in it, its style sheet unchanged, and
// the brand colour in a style sheet and an icon of their own. Nothing else of the partner's goes in.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type DeploymentRecord,
  findQueuedDeployment,
  markLive,
  markUnrendered,
  type RenderedFile
} from '../../db/community/templates.ts'
import { queues } from '../../schemas/jobs.ts'
import { findTemplate, type TemplateFacts } from '../../schemas/templates.ts'
import type { WorkerServices } from '../services.ts'
import { paletteOf } from './contrast.ts'

const BATCH = 10

/** Renders deployments that wait; returns how many were taken. */
export async function renderDeployments({
  db,
  queue,
  log
}: Pick<WorkerServices, 'db' | 'queue' | 'log'>): Promise<number> {
  const jobs = await db.transaction(trx => queue.fetch(trx, 'template.deploy', BATCH))
  for (const job of jobs) {
    try {
      const deployment = await findQueuedDeployment(db, job.data)
      // A template that was withdrawn since will not come back by trying again.
      const template = deployment && findTemplate(deployment.template)
      const files = template && (await renderSite(template, deployment))
      await db.transaction(async trx => {
        if (files) await markLive(trx, job.data, files)
        else await markUnrendered(trx, job.data)
        await queue.complete(trx, 'template.deploy', [job])
      })
    } catch (error) {
      log.error({ err: error, deploymentId: job.data.deploymentId }, 'a site could not be rendered')
      await db.transaction(async trx => {
        if (job.retryCount >= queues['template.deploy'].retry.limit) await markUnrendered(trx, job.data)
        await queue.fail(trx, 'template.deploy', job, error)
      })
    }
  }
  return jobs.length
}

/** The files of a site. Rejects when the template's sources are missing or broken. */
export async function renderSite(
  template: TemplateFacts,
  site: Pick<DeploymentRecord, 'brandName' | 'primaryColor' | 'contactEmail'>
): Promise<RenderedFile[]> {
  const source = (...names: string[]) => readFile(join(import.meta.dirname, 'templates', ...names), 'utf8')
  const palette = paletteOf(site.primaryColor)
  const page = fill(await source(template.slug, 'index.html'), {
    brandName: site.brandName,
    contactEmail: site.contactEmail ?? '',
    contactHref: site.contactEmail === null ? '' : mailto(site.contactEmail)
  })
  const style = `${await source('base.css')}\n${await source(template.slug, 'site.css')}`
  return [
    { path: 'index.html', contentType: 'text/html; charset=utf-8', body: Buffer.from(page) },
    { path: 'site.css', contentType: 'text/css; charset=utf-8', body: Buffer.from(style) },
    {
      path: 'brand.css',
      contentType: 'text/css; charset=utf-8',
      body: Buffer.from(
        `:root {\n  --brand: ${palette.brand};\n  --on-brand: ${palette.onBrand};\n  --brand-deep: ${palette.brandDeep};\n  --brand-on-light: ${palette.brandOnLight};\n  --brand-on-dark: ${palette.brandOnDark};\n}\n`
      )
    },
    {
      path: 'icon.svg',
      contentType: 'image/svg+xml',
      body: Buffer.from(
        `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${palette.brand}"/><path d="M7 21l6-6 4 4 8-9" fill="none" stroke="${palette.onBrand}" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/></svg>\n`
      )
    }
  ]
}

/**
 * `source` with each {{name}} replaced by its value, escaped for HTML; text between {{#name}} and {{/name}} is kept
 * only when the value is not empty, between {{^name}} and {{/name}} only when it is. Throws for a name without a value,
 * so that no page goes out with a hole.
 */
export function fill(source: string, values: Record<string, string>): string {
  const given = (name: string): string => {
    const value = values[name]
    if (value === undefined) throw new Error(`the page names {{${name}}}, which has no value`)
    return value
  }
  // One pass over the source: a value is never read as a placeholder.
  return source
    .replace(/\{\{([#^])(\w+)\}\}([\s\S]*?)\{\{\/\2\}\}/g, (_all, kind: string, name: string, inner: string) =>
      (kind === '#') === (given(name) !== '') ? inner : ''
    )
    .replace(/\{\{(\w+)\}\}/g, (_all, name: string) => escapeHtml(given(name)))
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => entities[character] as string)
}

// In a mailto address everything but the @ is percent-encoded, so that no ?subject= or &bcc= gets in.
function mailto(address: string): string {
  const at = address.lastIndexOf('@')
  return `mailto:${encodeURIComponent(address.slice(0, at))}@${encodeURIComponent(address.slice(at + 1))}`
}

// Templates: the catalogue, deploying one, and how brand colours and names go into its pages.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { deployTemplate, listMyDeployments, listTemplates } from '../../api/sites/templates.ts'
import { failStaleDeployments } from '../../db/community/templates.ts'
import { WORK } from '../../db/platform/bus.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { findTemplate } from '../../schemas/templates.ts'
import { contrast, paletteOf, READABLE } from '../../worker/sites/contrast.ts'
import { fill, renderSite } from '../../worker/sites/templates.ts'
import { call, closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

const harness = await openHarness({ env: { BASE_URL: 'http://api.example.com' } })
const { db } = harness.services
const worker = await startTestWorker(harness.env)

let sites = 0
const newSlug = () => `site-${++sites}`
const terms = (changes: object = {}) => ({ tenantSlug: newSlug(), brandName: 'Acme Markets', ...changes })
const get = (path: string, init: RequestInit = {}) => fetch(harness.address + path, { redirect: 'manual', ...init })

async function deployed(partner: TestPartner, body: Record<string, unknown>, slug = 'horizon') {
  const response = await partner.call(deployTemplate, { params: { slug }, body })
  assert.is(response.status, 200, JSON.stringify(response.body))
  return until('the site to be live', async () => {
    const { body } = await partner.call(listMyDeployments)
    return body.data.find(
      ({ deploymentId, status }: { deploymentId: string; status: string }) =>
        deploymentId === response.body.deploymentId && status === 'LIVE'
    )
  })
}

const listing = suite('GET /v1/templates')

listing('needs a key with templates:read', async () => {
  assert.is((await call(harness.address, listTemplates)).status, 401)
  const partner = await harness.makePartner({ scopes: ['templates:write'] })
  const response = await partner.call(listTemplates)
  assert.is(response.status, 403)
  assert.is(response.body.requiredScope, 'templates:read')
})

listing('returns at least three templates, each with sources that render', async () => {
  const partner = await harness.makePartner({ scopes: ['templates:read'] })
  const { body } = await partner.call(listTemplates)
  assert.ok(body.data.length >= 3)
  for (const { slug, previewColor } of body.data) {
    const template = findTemplate(slug)
    assert.ok(template)
    const files = await renderSite(template, { brandName: 'Acme', primaryColor: previewColor, contactEmail: null })
    assert.equal(
      files.map(({ path }) => path),
      ['index.html', 'site.css', 'brand.css', 'icon.svg']
    )
  }
})

const deploying = suite('POST /v1/templates/{slug}/deploy')

deploying('needs templates:write', async () => {
  const partner = await harness.makePartner({ scopes: ['templates:read'] })
  const response = await partner.call(deployTemplate, { params: { slug: 'horizon' }, body: terms() })
  assert.is(response.status, 403)
})

deploying('returns 404 for a template that does not exist', async () => {
  const partner = await harness.makePartner()
  for (const slug of ['nothing', '../horizon', 'constructor']) {
    const response = await partner.call(deployTemplate, { params: { slug }, body: terms() })
    assert.is(response.status, 404, slug)
    assert.is(response.body.error, 'NOT_FOUND')
  }
})

deploying('refuses what breaks its schema, naming the field', async () => {
  const partner = await harness.makePartner()
  const wrong: [string, unknown][] = [
    ['tenantSlug', 'ab'],
    ['tenantSlug', 'a'.repeat(33)],
    ['tenantSlug', '-acme'],
    ['tenantSlug', 'acme-'],
    ['tenantSlug', 'Acme'],
    ['tenantSlug', 'ac/me'],
    ['tenantSlug', 'acme\n'],
    ['brandName', 'A'],
    ['brandName', '   '],
    ['brandName', 'x'.repeat(61)],
    ['brandName', 'Ac\u0000me'],
    ['primaryColor', 'red'],
    ['primaryColor', '#12345'],
    ['primaryColor', '#12345g'],
    ['primaryColor', '#fff;}body{}'],
    ['contactEmail', 'not an address'],
    ['contactEmail', `${'a'.repeat(250)}@b.example`]
  ]
  for (const [field, value] of wrong) {
    const response = await partner.call(deployTemplate, {
      params: { slug: 'horizon' },
      body: terms({ [field]: value })
    })
    assert.is(response.status, 400, `${field} ${value}`)
    assert.is(response.body.details[0].path, `/body/${field}`)
  }
  const missing = await partner.call(deployTemplate, { params: { slug: 'horizon' }, body: {} })
  assert.is(missing.body.details.length, 2)
})

deploying('refuses a tenantSlug of another partner, and changes nothing of theirs', async () => {
  const [first, second] = [await harness.makePartner(), await harness.makePartner()]
  const body = terms({ brandName: 'First Come' })
  await deployed(first, body)
  const response = await second.call(deployTemplate, {
    params: { slug: 'midnight' },
    body: { ...body, brandName: 'Second' }
  })
  assert.is(response.status, 409)
  assert.is(response.body.error, 'TENANT_SLUG_TAKEN')
  assert.equal((await second.call(listMyDeployments)).body.data, [])
  assert.match(await (await get(`/sites/${body.tenantSlug}/`)).text(), 'First Come')
})

deploying('gives a slug to one of many partners who request it at the same moment', async () => {
  const partners = await Promise.all(Array.from({ length: 6 }, () => harness.makePartner()))
  const body = terms()
  const responses = await Promise.all(
    partners.map(partner => partner.call(deployTemplate, { params: { slug: 'horizon' }, body }))
  )
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
})

deploying('stops a partner at 100 sites, but lets the 100 be deployed again', async () => {
  const partner = await harness.makePartner()
  await db('deployments').insert(
    Array.from({ length: 100 }, (_, index) => ({
      id: newId('deployment'),
      partner_id: partner.partnerId,
      template: 'horizon',
      tenant_slug: `many-${index}`,
      brand_name: 'Many',
      primary_color: '#000000',
      status: 'FAILED'
    }))
  )
  const response = await partner.call(deployTemplate, { params: { slug: 'horizon' }, body: terms() })
  assert.equal([response.status, response.body.error, response.body.limit], [409, 'LIMIT_REACHED', 100])
  await deployed(partner, { tenantSlug: 'many-7', brandName: 'Again' })
  assert.is((await partner.call(listMyDeployments)).body.data.length, 100)
})

deploying('returns QUEUED at once, with the address of the site', async () => {
  const partner = await harness.makePartner()
  const body = terms({ primaryColor: '#AABBCC', contactEmail: 'hello@acme.example' })
  const response = await partner.call(deployTemplate, { params: { slug: 'bulletin' }, body })
  assert.is(response.status, 200)
  assert.is(response.body.status, 'QUEUED')
  assert.is(response.body.slug, 'bulletin')
  assert.is(response.body.primaryColor, '#AABBCC')
  assert.is(response.body.contactEmail, 'hello@acme.example')
  assert.is(response.body.url, `http://api.example.com/sites/${body.tenantSlug}/`)
})

deploying("takes the template's own colour and no address where none is given", async () => {
  const partner = await harness.makePartner()
  const site = await deployed(partner, terms(), 'midnight')
  assert.is(site.primaryColor, findTemplate('midnight')?.previewColor)
  assert.is(site.contactEmail, null)
  assert.not.match(await (await get(`/sites/${site.tenantSlug}/`)).text(), 'mailto:')
})

deploying("replaces the partner's own site under the same id, whatever the template", async () => {
  const partner = await harness.makePartner()
  const body = terms({ brandName: 'Former Brand' })
  const before = await deployed(partner, body)
  const after = await deployed(partner, { ...body, brandName: 'Newer Brand', primaryColor: '#ff0000' }, 'midnight')
  assert.is(after.deploymentId, before.deploymentId)
  assert.is(after.createdAt, before.createdAt)
  assert.is(after.slug, 'midnight')
  const page = await (await get(`/sites/${body.tenantSlug}/`)).text()
  assert.match(page, 'Newer Brand')
  assert.not.match(page, 'Former Brand')
  assert.match(await (await get(`/sites/${body.tenantSlug}/brand.css`)).text(), '--brand: #ff0000')
})

deploying('ends with the last of many deployments to one address', async () => {
  const partner = await harness.makePartner()
  const body = terms()
  for (let n = 1; n <= 8; n++)
    await partner.call(deployTemplate, { params: { slug: 'horizon' }, body: { ...body, brandName: `Brand ${n}` } })
  await deployed(partner, { ...body, brandName: 'The last' })
  assert.match(await (await get(`/sites/${body.tenantSlug}/`)).text(), 'The last')
})

deploying('becomes FAILED when its template was withdrawn, and the site that was LIVE is still served', async () => {
  const partner = await harness.makePartner()
  const site = await deployed(partner, terms({ brandName: 'Still here' }))
  const { deploymentId } = site
  await db.transaction(async trx => {
    await trx('deployments')
      .where({ id: deploymentId })
      .update({ template: 'withdrawn', status: 'QUEUED', revision: 2 })
    await harness.services.queue.enqueue(trx, 'template.deploy', [{ deploymentId, revision: 2 }])
  })
  harness.services.bus.publish(WORK, 'template.deploy', 'new')
  await until('the deployment to fail', async () => {
    const { body } = await partner.call(listMyDeployments)
    return body.data[0].status === 'FAILED'
  })
  assert.match(await (await get(`/sites/${site.tenantSlug}/`)).text(), 'Still here')
})

deploying('becomes FAILED when no worker rendered it for an hour', async () => {
  const partner = await harness.makePartner()
  const site = await deployed(partner, terms())
  const lost = { status: 'QUEUED', revision: 9, updated_at: db.raw(`now() - interval '61 minutes'`) }
  await db('deployments').where({ id: site.deploymentId }).update(lost)
  assert.is(await failStaleDeployments(db), 1)
  assert.is((await partner.call(listMyDeployments)).body.data[0].status, 'FAILED')
})

const mine = suite('GET /v1/templates/mine')

mine("lists the partner's own sites, newest first, and nobody else's", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const slugs = [newSlug(), newSlug(), newSlug()]
  for (const tenantSlug of slugs) await deployed(partner, { tenantSlug, brandName: 'Mine' })
  const { body } = await partner.call(listMyDeployments)
  assert.equal(
    body.data.map(({ tenantSlug }: { tenantSlug: string }) => tenantSlug),
    slugs.reverse()
  )
  assert.equal((await other.call(listMyDeployments)).body.data, [])
})

const reading = suite('colours')

reading('can be read on and in every brand colour', () => {
  for (let n = 0; n < 4096; n++) {
    const brand = `#${[n >> 8, (n >> 4) & 15, n & 15].map(digit => digit.toString(16).repeat(2)).join('')}`
    const palette = paletteOf(brand)
    assert.ok(contrast(palette.onBrand, brand) >= READABLE, brand)
    assert.ok(contrast(palette.onBrand, palette.brandDeep) >= READABLE, brand)
    for (const page of ['#ffffff', '#f4f6f9', '#fbf8f3', '#f2ede4'])
      assert.ok(contrast(palette.brandOnLight, page) >= READABLE, `${brand} on ${page}`)
    for (const page of ['#000000', '#0a0e17', '#121826'])
      assert.ok(contrast(palette.brandOnDark, page) >= READABLE, `${brand} on ${page}`)
  }
})

reading('leaves a colour alone that can be read as it is', () => {
  assert.is(paletteOf('#7c2d12').brandOnLight, '#7c2d12')
  assert.is(paletteOf('#FFE4A0').brandOnDark, '#ffe4a0')
  assert.is(Math.round(contrast('#000000', '#ffffff')), 21)
})

const filling = suite('a page')

filling('is refused when it names something without a value', () => {
  assert.throws(() => fill('{{nothing}}', {}), /nothing/)
  assert.throws(() => fill('{{#nothing}}x{{/nothing}}', {}), /nothing/)
})

filling('keeps or drops its optional parts', () => {
  assert.is(fill('{{#a}}A {{a}}{{/a}}{{^a}}none{{/a}}', { a: '<' }), 'A &lt;')
  assert.is(fill('{{#a}}A {{a}}{{/a}}{{^a}}none{{/a}}', { a: '' }), 'none')
})

filling.after(async () => {
  await worker.stop()
  await closeAll()
})

listing.run()
deploying.run()
mine.run()
reading.run()
filling.run()

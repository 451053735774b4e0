// Deployed sites over HTTP: what is served, under which headers, and what never gets into them.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { deployTemplate, listMyDeployments } from '../../api/sites/templates.ts'
import { suspendPartner } from '../../db/partners/standing.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

const harness = await openHarness()
const { db } = harness.services
const worker = await startTestWorker(harness.env)
onClose(() => worker.stop())

const get = (path: string, init: RequestInit = {}) => fetch(harness.address + path, { redirect: 'manual', ...init })

async function deployed(partner: TestPartner, body: object) {
  const response = await partner.call(deployTemplate, { params: { slug: 'horizon' }, body })
  return until('the site to be live', async () => {
    const { body } = await partner.call(listMyDeployments)
    return body.data.find(
      ({ deploymentId, status }: { deploymentId: string; status: string }) =>
        deploymentId === response.body.deploymentId && status === 'LIVE'
    )
  })
}

const serving = suite('GET /sites/{tenantSlug}/')
const owner = await harness.makePartner()
const hostile = `<script>alert("1")</script> & 'Ünï' {{brandName}}`
const hostileSite = await deployed(owner, {
  tenantSlug: 'hostile-brand',
  brandName: hostile,
  contactEmail: `o'brien&bcc=x@acme.example`,
  primaryColor: '#fefefe'
})

serving('returns the 404 envelope for what does not exist', async () => {
  for (const path of [
    '/sites',
    '/sites/',
    '/sites/nobody-here/',
    '/sites/hostile-brand/nothing.html',
    '/sites/hostile-brand/a/b',
    '/sites/hostile-brand/..%2f..%2fpackage.json',
    '/sites/hostile-brand/%00',
    '/sites/UPPER/'
  ]) {
    const response = await get(path)
    assert.is(response.status, 404, path)
    assert.equal(Object.keys((await response.json()) as object), ['error', 'message', 'requestId', 'docs'])
  }
})

serving('is the same from every process on the database', async () => {
  const second = await openHarness({ url: harness.url })
  const response = await fetch(`${second.address}/sites/hostile-brand/`)
  assert.is(response.status, 200)
  assert.is(response.headers.get('etag'), (await get('/sites/hostile-brand/')).headers.get('etag'))
})

serving('takes GET and HEAD only', async () => {
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
    const response = await get('/sites/hostile-brand/', { method })
    assert.is(response.status, 405)
    assert.is(response.headers.get('allow'), 'GET, HEAD')
  }
  const head = await get('/sites/hostile-brand/', { method: 'HEAD' })
  assert.is(head.status, 200)
  assert.is(await head.text(), '')
  assert.ok(Number(head.headers.get('content-length')) > 1000)
})

serving('leads from the address without its slash to the one with it', async () => {
  const response = await get('/sites/hostile-brand')
  assert.is(response.status, 301)
  assert.is(response.headers.get('location'), '/sites/hostile-brand/')
})

serving('serves each file with its type, and headers that allow no script, frame or form', async () => {
  const types = {
    '': 'text/html; charset=utf-8',
    'site.css': 'text/css; charset=utf-8',
    'brand.css': 'text/css; charset=utf-8',
    'icon.svg': 'image/svg+xml'
  }
  for (const [path, type] of Object.entries(types)) {
    const response = await get(`/sites/hostile-brand/${path}`)
    assert.is(response.status, 200, path)
    assert.is(response.headers.get('content-type'), type)
    assert.is(response.headers.get('x-content-type-options'), 'nosniff')
    assert.is(response.headers.get('referrer-policy'), 'no-referrer')
    assert.is(response.headers.get('x-frame-options'), 'DENY')
    assert.match(response.headers.get('permissions-policy') ?? '', 'geolocation=()')
    for (const who of ['opener', 'resource'])
      assert.is(response.headers.get(`cross-origin-${who}-policy`), 'same-origin')
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, "default-src 'none'")
    assert.match(policy, "frame-ancestors 'none'")
    assert.match(policy, "form-action 'none'")
    assert.not.match(policy, /unsafe|script-src/)
  }
})

serving('returns 304 without a body to a cache that has the file', async () => {
  const first = await get('/sites/hostile-brand/')
  const etag = first.headers.get('etag') as string
  assert.match(etag, /^"[\w-]{27}"$/)
  assert.match(first.headers.get('cache-control') ?? '', 'max-age=60')
  const second = await get('/sites/hostile-brand/', { headers: { 'if-none-match': etag } })
  assert.is(second.status, 304)
  assert.is(await second.text(), '')
  for (const known of [`W/${etag}`, `"old", ${etag}`, '*'])
    assert.is((await get('/sites/hostile-brand/', { headers: { 'if-none-match': known } })).status, 304, known)
  assert.is((await get('/sites/hostile-brand/', { headers: { 'if-none-match': '"old"' } })).status, 200)
})

serving('shows what the partner gave as text, never as markup', async () => {
  const page = await (await get('/sites/hostile-brand/')).text()
  assert.match(page, '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;Ünï&#39; {{brandName}}')
  assert.not.match(page, /<script|\son\w+=|javascript:|style=/i)
  assert.match(page, 'href="mailto:o&#39;brien%26bcc%3Dx@acme.example"')
})

serving("carries nothing of the partner's but name, colour and address", async () => {
  const { partnerId, keyId, key } = owner
  for (const path of ['', 'site.css', 'brand.css', 'icon.svg']) {
    const text = await (await get(`/sites/hostile-brand/${path}`)).text()
    for (const secret of [partnerId, keyId, key, key.slice(13, 29), hostileSite.deploymentId, 'service_live'])
      assert.not.ok(text.includes(secret), `${path} ${secret}`)
  }
})

serving("takes a suspended partner's sites down until it is resumed", async () => {
  const partner = await harness.makePartner()
  const { tenantSlug } = await deployed(partner, { tenantSlug: 'suspended-one', brandName: 'Acme' })
  await suspendPartner(db, partner.partnerId, 'phishing')
  assert.is((await get(`/sites/${tenantSlug}/`)).status, 404)
})

serving.after(closeAll)
serving.run()

// The reference page: open to anybody, closed to everything that is not ours, and fit to be read on a wide and a
// narrow screen. Needs chromium (CHROMIUM names another one).
//   SCREENSHOTS=dir keeps a picture of each page.
// test time-out: 300 s
// test in the full run only
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { adaptRedoc } from '../../api/description/docs.ts'
import { chapters, guides } from '../../api/description/guides.ts'
import { describe } from '../../api/description/spec.ts'
import { operations } from '../../api/operations.ts'
import { docsOf } from '../../api/request/respond.ts'
import { errors } from '../../schemas/errors/errors.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'

const harness = await openHarness()
const serving = suite('GET /docs')

serving('takes GET and HEAD only, and names them', async () => {
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const response = await fetch(`${harness.address}/docs`, { method })
    assert.is(response.status, 405)
    assert.is(response.headers.get('allow'), 'GET, HEAD')
    assert.is(((await response.json()) as { error: string }).error, 'METHOD_NOT_ALLOWED')
  }
  assert.is((await fetch(`${harness.address}/docs`, { method: 'HEAD' })).status, 200)
})

serving('is where the bare address leads', async () => {
  const response = await fetch(harness.address, { redirect: 'manual' })
  assert.equal([response.status, response.headers.get('location')], [302, '/docs'])
})

serving('knows its own files and no others', async () => {
  for (const path of ['/docs/', '/docs/other', '/docs/../package.json', '/docs/%2e%2e/package.json', '/docs/toString'])
    assert.is((await fetch(`${harness.address}${path}`)).status, path === '/docs/' ? 200 : 404, path)
})

serving('refuses clear text where HTTPS is required, before anything else', async () => {
  const strict = await openHarness({ url: harness.url, env: { BASE_URL: 'https://api.example.com' } })
  const response = await fetch(`${strict.address}/docs`)
  assert.is(response.status, 403)
  assert.is(((await response.json()) as { error: string }).error, 'HTTPS_REQUIRED')
  await strict.close()
})

serving('lets no script in but ours and connects to nowhere else', async () => {
  const response = await fetch(`${harness.address}/docs`)
  assert.match(response.headers.get('content-type') ?? '', 'text/html')
  const policy = response.headers.get('content-security-policy') ?? ''
  assert.match(policy, "default-src 'none'; script-src 'self';")
  assert.match(policy, "connect-src 'self'")
  assert.match(policy, "frame-ancestors 'none'")
})

serving('names every guide and operation for machines in /llms.txt, and serves each guide as Markdown', async () => {
  const response = await fetch(`${harness.address}/llms.txt`)
  assert.match(response.headers.get('content-type') ?? '', 'text/plain')
  const text = await response.text()
  for (const { method, path } of operations) assert.match(text, `\`${method} ${path}\``)
  const { baseUrl } = harness.services.config
  const links = [...text.matchAll(/\]\(([^)]+\.md)\)/g)].map(([, link = '']) => link.replace(baseUrl, harness.address))
  assert.is(links.length, chapters.length)
  const guidesInFull = guides(baseUrl, operations)
  for (const link of links) {
    const guide = await fetch(link)
    assert.match(guide.headers.get('content-type') ?? '', 'text/markdown')
    assert.ok(guidesInFull.includes(await guide.text()), link)
  }
  for (const line of text.split('\n').filter(each => each.startsWith('- ['))) assert.match(line, /\): .{10,}/, line)
})

serving('does not serve a Redoc that lacks what is adapted', () => {
  assert.throws(() => adaptRedoc('another version'), 'This version of redoc has no')
})

serving('gives the description without a key: the same document as GET /v1/_spec', async () => {
  const response = await fetch(`${harness.address}/docs/openapi.json`)
  assert.is(response.headers.get('content-encoding'), 'gzip')
  const document = JSON.parse(JSON.stringify(describe(operations, harness.services.config.baseUrl)))
  assert.equal(await response.json(), document)
  const etag = response.headers.get('etag') ?? ''
  for (const known of [etag, `W/${etag}`, `"other", W/${etag}`])
    assert.is((await fetch(response.url, { headers: { 'if-none-match': known } })).status, 304, known)
  const plain = await fetch(response.url, { headers: { 'accept-encoding': 'identity', 'if-none-match': etag } })
  assert.equal(
    [plain.status, plain.headers.get('content-encoding')],
    [200, null],
    'other bytes under the same strong tag'
  )
  assert.equal(await plain.json(), document)
  assert.is((await fetch(`${harness.address}/v1/_spec`)).status, 401)
})

const looking = suite('the reference in a browser')
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
const shots = process.env.SCREENSHOTS

if (existsSync(executablePath)) await look()
else console.log(`SKIPPED: no browser at ${executablePath}; the reference page was not looked at`)

async function look(): Promise<void> {
  if (shots) await mkdir(shots, { recursive: true })
  const quiet = ['disable-gpu', 'disable-quic', 'no-first-run', 'disable-background-networking']
  const args = ['no-sandbox', ...quiet, 'disable-component-update', 'disable-sync'].map(name => `--${name}`)
  const browser = await chromium.launch({ executablePath, headless: true, args })
  onClose(() => browser.close())
  for (const [name, width, height] of [
    ['wide', 1280, 900],
    ['narrow', 390, 844]
  ] as const) {
    looking(`${name}: shows guides, operations and errors, fits, and loads nothing from elsewhere`, async () => {
      const { page, complaints } = await openPage(browser, width, height)
      const picture = async (what: string) => {
        if (shots) await page.screenshot({ path: join(shots, `docs-${name}-${what}.png`) })
      }
      const visit = async (anchor: string, text: string) => {
        await page.goto(`${harness.address}/docs${anchor}`)
        await page.getByRole('heading', { name: text }).first().waitFor()
        await picture(anchor.replace(/\W+/g, '-'))
        assert.is(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'sticks out')
      }
      await visit('', 'Your first order')
      const call = page.locator('pre[data-language=sh]', { hasText: '/v1/orders/binary' })
      await call.locator('..').getByRole('button', { name: 'Copy' }).click()
      await page.getByRole('button', { name: 'Copied' }).waitFor()
      assert.is(await page.evaluate('navigator.clipboard.readText()'), ((await call.textContent()) ?? '').trimEnd())
      assert.is(await page.locator('table.md thead').first().isVisible(), name === 'wide', 'the heads of tables')
      await visit('#/orders/placebinaryorder', 'Place a binary or digit contract')
      assert.ok(await page.getByText('/v1/orders/binary').count(), 'the call is shown')
      await visit(docsOf('', 'EMAIL_TAKEN').replace('/docs', ''), 'EMAIL_TAKEN')
      await visit('#/section/errors', 'Errors')
      const text = (await page.evaluate('document.body.innerText')) as string
      assert.equal(
        Object.keys(errors).filter(code => !text.includes(code)),
        []
      )
      assert.equal(complaints, [])
      await page.close()
    })
  }

  looking(
    'search finds a code and a guide first; guides have the whole width, header fields come after the body',
    async () => {
      const { page, complaints } = await openPage(browser, 1440, 900)
      page.setDefaultTimeout(90_000)
      await page.goto(`${harness.address}/docs#/orders/placebinaryorder`)
      const [headers, body] = ['header', 'body'].map(part =>
        page.locator(`[id^="orders/placebinaryorder/request/${part}"]`)
      )
      const top = async (part = headers) => (await part?.first().boundingBox())?.y ?? Number.NaN
      assert.ok((await top(body)) < (await top(headers)), 'the body comes first')
      // The index is made while the page is idle.
      await page.getByText('Search Ctrl').click()
      const box = page.getByPlaceholder('Search docs')
      for (const [words, anchor] of [
        ['MARKET_CLOSED', '/section/errors/market_closed'],
        ['polling', '/section/waiting-and-polling'],
        ['rate limit', '/section/rate-limits']
      ] as const) {
        await box.fill(words)
        const first = page.locator('a[data-component-name="Search/SearchItem"]').first()
        await until(`${words} to find ${anchor}`, async () => (await first.getAttribute('href')) === `#${anchor}`)
        if (words === 'rate limit') await first.click()
      }
      const heading = page.getByRole('heading', { name: 'Rate limits' }).first()
      await heading.waitFor()
      const panel = await page.locator('[data-testid="middle-panel"]', { has: heading }).boundingBox()
      assert.ok((panel?.width ?? 0) > 1000, `${panel?.width} px of 1440`)
      assert.equal(complaints, [])
      await page.close()
    }
  )

  looking('a call is tried from the page, with the key that is given there', async () => {
    const partner = await harness.makePartner()
    const { page, complaints } = await openPage(browser, 1280, 900)
    // Every operation is drawn first, which takes long on a busy machine.
    page.setDefaultTimeout(150_000)
    await page.goto(`${harness.address}/docs/try#/Identity/getMe`)
    await page.locator('button.btn.authorize').first().click()
    await page.locator('.auth-container input').first().fill(partner.key)
    await page.locator('.auth-btn-wrapper button.authorize').first().click()
    await page.locator('button.btn-done').first().click()
    await page.locator('button.execute').click()
    const live = page.locator('.live-responses-table')
    await live.waitFor()
    const text = (await live.textContent()) ?? ''
    assert.match(text, '200')
    assert.match(text, partner.partnerId)
    assert.equal(complaints, [])
    await page.close()
  })
}

async function openPage(browser: Browser, width: number, height: number) {
  const context = await browser.newContext({
    viewport: { width, height },
    permissions: ['clipboard-read', 'clipboard-write']
  })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', message => message.type() !== 'info' && complaints.push(message.text()))
  page.on('pageerror', error => complaints.push(String(error)))
  page.on('requestfailed', request => complaints.push(`failed: ${request.url()}`))
  page.on('request', request => {
    if (!request.url().startsWith(harness.address)) complaints.push(`goes elsewhere: ${request.url()}`)
  })
  return { page, complaints }
}

looking.after(closeAll)
serving.run()
looking.run()

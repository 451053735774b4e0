// Deployed sites as a visitor sees them: every template in a real browser, on a wide and a narrow screen,
// under light, dark and awkward brands. Needs chromium (CHROMIUM names another one).
//   SCREENSHOTS=dir keeps a picture of each page.
// test time-out: 180 s
// test in the full run only
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { deployTemplate, listMyDeployments } from '../../api/sites/templates.ts'
import { catalogue } from '../../schemas/templates.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'
const looking = suite('a deployed site in a browser')

const screens = [
  { name: 'wide', width: 1280, height: 900 },
  { name: 'narrow', width: 390, height: 844 }
]

const brands = [
  { name: 'own', brandName: 'Acme Markets', contactEmail: 'hello@acme.example' },
  { name: 'pale', brandName: 'Lumière & Søn', primaryColor: '#ffe08a', contactEmail: 'desk@lumiere.example' },
  { name: 'deep', brandName: 'نور للتداول', primaryColor: '#14213d' },
  { name: 'white', brandName: '<b>W</b>', primaryColor: '#ffffff', contactEmail: 'a@b.example' },
  {
    name: 'long',
    brandName: 'W'.repeat(60),
    primaryColor: '#777777',
    contactEmail: `${'long'.repeat(14)}@${'x'.repeat(60)}.example`
  }
]

// Runs in the browser, whose globals the checker does not know here.
const [, measure] = (await readFile(join(import.meta.dirname, 'sites-browser-page.js'), 'utf8')).split(
  'export default '
)

if (existsSync(executablePath)) await open()
else console.log(`SKIPPED: no browser at ${executablePath}; the deployed sites were not looked at`)

async function open(): Promise<void> {
  const harness = await openHarness()
  const worker = await startTestWorker(harness.env)
  onClose(() => worker.stop())
  const partner = await harness.makePartner()
  const addresses = new Map<string, string>()
  for (const { slug } of catalogue) {
    for (const { name, ...body } of brands) {
      const tenantSlug = `${slug}-${name}`
      await partner.call(deployTemplate, { params: { slug }, body: { tenantSlug, ...body } })
      addresses.set(tenantSlug, `${harness.address}/sites/${tenantSlug}/`)
    }
  }
  await until('every site to be live', async () => {
    const { body } = await partner.call(listMyDeployments)
    return body.data.every(({ status }: { status: string }) => status === 'LIVE')
  })

  const profile = await mkdtemp(join(tmpdir(), 'operator-test-browser-'))
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync'
    ]
  })
  onClose(async () => {
    await browser.close()
    await rm(profile, { recursive: true, force: true })
  })
  const shots = process.env.SCREENSHOTS
  if (shots) await mkdir(shots, { recursive: true })

  for (const [tenantSlug, address] of addresses) {
    for (const { name, width, height } of screens) {
      looking(`${tenantSlug}, ${name}: fits, can be read, and breaks none of its own rules`, async () => {
        const page = await browser.newPage()
        try {
          const complaints: string[] = []
          page.on('console', message => complaints.push(message.text()))
          page.on('requestfailed', request => complaints.push(`failed: ${request.url()}`))
          page.on('request', request => {
            if (!request.url().startsWith(harness.address)) complaints.push(`goes elsewhere: ${request.url()}`)
          })
          await page.setViewportSize({ width, height })
          const response = await page.goto(address, { waitUntil: 'load' })
          assert.is(response?.status(), 200)
          if (shots) await page.screenshot({ path: join(shots, `${tenantSlug}-${name}.png`), fullPage: true })
          assert.equal(complaints, [])
          const found = await examine(page)
          assert.is(found.overflow, 0, 'nothing sticks out at the side')
          assert.equal(found.unreadable, [])
          assert.equal(found.structure, { h1: 1, main: 1, lang: 'en', skipsHeading: false, missingAlt: 0, nameless: 0 })
          assert.equal(found.deadLinks, [])
        } finally {
          await page.close()
        }
      })
    }
  }
}

interface Examined {
  overflow: number
  unreadable: string[]
  structure: object
  deadLinks: string[]
}

/** Measurements of a page, within the browser. */
function examine(page: Page): Promise<Examined> {
  return page.evaluate(`(${measure})()`)
}

looking.after(closeAll)
looking.run()

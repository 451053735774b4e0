// A short year of billing; the long one is `make billing-year`.
// test in the full run only
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { verifyLedger } from '../../db/money/verify.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { auditYear } from '../billing-year/audit.ts'
import { liveYear } from '../billing-year/year.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { seed } from '../support/seed.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 10, name: 'billing-year-test' })

const year = suite('a year of billing')

year('explains each charge, charges nothing twice, and nothing for time locked out or for a retired bot', async () => {
  const lived = await liveYear(db, { partners: 40, days: 200, seed })
  const { broken, lines } = await auditYear(db, lived)
  assert.equal(broken.slice(0, 5), [], JSON.stringify(lived.counts))
  assert.ok(lines > 200, `${lines} lines`)
  for (const step of ['top up', 'set plan', 'suspend', 'resume', 'subscribe', 'retire or publish'])
    assert.ok((lived.counts[step] ?? 0) > 0, `${step}: ${JSON.stringify(lived.counts)}`)
  await verifyLedger(db)
})

year.after(async () => {
  await db.destroy()
  await closeAll()
})
year.run()

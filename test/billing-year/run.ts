// The long form: node test/billing-year/run.ts [--partners 1000] [--days 365] [--seed 1]
import { parseArgs } from 'node:util'
import { verifyLedger } from '../../db/money/verify.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { closeAll, closeOnSignals, openTestDatabase } from '../support/harness.ts'
import { auditYear } from './audit.ts'
import { liveYear } from './year.ts'

closeOnSignals()

const text = { type: 'string' } as const
const { values } = parseArgs({ options: { partners: text, days: text, seed: text } })
const options = {
  partners: Number(values.partners ?? 1000),
  days: Number(values.days ?? 365),
  seed: Number(values.seed ?? 1)
}
const db = openDatabase({ url: await openTestDatabase(), pool: 10, name: 'billing-year' })
try {
  const startedAt = performance.now()
  const year = await liveYear(db, options)
  const { broken, lines } = await auditYear(db, year)
  const ledger = await verifyLedger(db)
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  console.log(
    JSON.stringify({ ...options, seconds, lines, counts: year.counts, ledger, broken: broken.length }, null, 1)
  )
  for (const each of broken.slice(0, 20)) console.log(each)
  if (broken.length > 0) process.exitCode = 1
} finally {
  await db.destroy()
  await closeAll()
}

// The money storm in short: three processes, killed and cut off, and every promise about money at each pause.
// The long form is `make money-storm`.
// test in the full run only
// test time-out: 240 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { audit } from '../money-storm/audit.ts'
import { storm } from '../money-storm/storm.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { seed } from '../support/seed.ts'

const url = await openTestDatabase()

const storms = suite(`money storm, seed ${seed}`)

storms('keeps every promise at every pause', async () => {
  const report = await storm({
    url,
    seed,
    operations: 1800,
    processes: 3,
    concurrency: 6,
    rounds: 3,
    partners: 30,
    kills: 2,
    cuts: 3,
    print: line => console.log(line)
  })
  assert.ok(report.operations >= 1800 && report.kills > 0 && report.transfers > 180, JSON.stringify(report))
})

storms('is audited by eyes that see: a lost payment, a fee taken twice', async () => {
  const db = openDatabase({ url: await openTestDatabase(), pool: 2, name: 'blind-test' })
  const { partnerId } = await insertPartner(db, { name: 'P', plan: 'PRO', brokerAppId: '1', brokerDialect: 'v3' })
  const wallet = accounts.wallet(partnerId)
  await transfer(db, { reference: 'in', kind: 'topup', entries: move('world', wallet, '100') })
  const now = new Date()
  const scene = {
    partners: [partnerId],
    bots: [],
    now,
    prices: { LAUNCH: '1', PRO: '1', SCALE: '1' },
    feePct: '20',
    topUps: { round: 0, references: 1 }
  }
  assert.is(await audit(db, { scene, acknowledged: new Set(['in']) }), null)
  assert.match((await audit(db, { scene, acknowledged: new Set(['in', 'out']) })) as string, 'Lost: out')
  for (const day of ['01', '02']) {
    const periodStart = `2026-03-${day}T00:00:00.000Z`
    const reference = `fee:${partnerId}:${periodStart}`
    await transfer(db, { reference, kind: 'plan_fee', entries: move(wallet, 'fees', '1'), details: { periodStart } })
  }
  assert.match((await audit(db, { scene, acknowledged: new Set() })) as string, 'no period is charged twice')
  await db.destroy()
})

storms.after(closeAll)

storms.run()

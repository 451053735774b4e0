// Plan fees under fire: real `operator billing check` processes side by side over hundreds of partners, one of
// them killed half-way, and the scheduled check of a worker on top. Each period is charged once.
// test in the full run only
// test time-out: 240 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { verifyLedger } from '../../db/money/verify.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { startProcess, startTestWorker } from '../support/processes.ts'

const { services, env } = await openHarness()
const { db } = services

const PARTNERS = 600

/** Partners whose trial ended now, each with a wallet that covers one fee of the PRO plan and not two. */
async function makeDuePartners(prefix: string): Promise<void> {
  await db.raw(
    `insert into partners (id, name, plan, broker_app_id, broker_dialect, period_start, period_end, billing_anchor)
     select 'ptn_' || :prefix || n, 'P', 'PRO', '1', 'v3', now() - interval '30 days', now(), now()
       from generate_series(1, :count) n`,
    { prefix, count: PARTNERS }
  )
  await db.raw(
    `insert into ledger_accounts (id) select 'wallet:ptn_' || :prefix || n from generate_series(1, :count) n`,
    {
      prefix,
      count: PARTNERS
    }
  )
  await db.raw(
    `with t as (insert into ledger_transfers (id, reference, kind, amount)
                select 'trf_' || :prefix || n, 'topup:' || :prefix || n, 'topup', 300.25 from generate_series(1, :count) n
                returning id)
     insert into ledger_entries (account_id, version, transfer_id, amount, balance)
     select v.account, 0, t.id, v.amount, 0
       from t cross join lateral (values ('world', -300.25), ('wallet:ptn_' || substr(t.id, 5), 300.25)) v (account, amount)`,
    { prefix, count: PARTNERS }
  )
}

async function feesOf(prefix: string): Promise<{ fees: number; partners: number }> {
  const [row] = (
    (await db.raw(
      `select count(*)::int as fees, count(distinct split_part(reference, ':', 2))::int as partners
         from ledger_transfers where reference like 'fee:ptn_' || :prefix || '%'`,
      { prefix }
    )) as { rows: { fees: number; partners: number }[] }
  ).rows
  return row as { fees: number; partners: number }
}

async function wrongPartners(prefix: string): Promise<number> {
  const { rows } = (await db.raw(
    `select count(*)::int as wrong from partners p join ledger_accounts a on a.id = 'wallet:' || p.id
      where p.id like 'ptn_' || :prefix || '%' and not (p.plan_active and p.period_end > now() and a.balance = 101.25)`,
    { prefix }
  )) as { rows: [{ wrong: number }] }
  return rows[0].wrong
}

/** A transaction in which the partner is locked, so that no check is done with it. */
async function hold(id: string) {
  const holding = await db.transaction()
  await holding('partners').where({ id }).forUpdate().first('id')
  return holding
}

const check = () => startProcess('cli/main.ts', env, ['billing', 'check', '--json'])
const counted = (lines: string[]) => JSON.parse(lines.join('\n')) as { charged: number; deactivated: number }

const killing = suite('billing check, many and killed')

killing('charges each of hundreds of partners once when two processes check at once', async () => {
  await makeDuePartners('a')
  // Both wait for the first partner: one that starts late on a busy machine would find all of them charged.
  const first = await hold('ptn_a1')
  const checks = [check(), check()]
  const ends = Promise.race(checks.map(({ ended }) => ended))
  await untilLockWaits(db, { count: 2, work: ends, timeoutMs: 60_000 }).finally(() => first.commit())
  for (const { ended, lines } of checks) assert.is(await ended, 0, lines.join('\n'))
  const counts = checks.map(({ lines }) => counted(lines))
  assert.is((counts[0]?.charged ?? 0) + (counts[1]?.charged ?? 0), PARTNERS)
  assert.ok(counts.every(({ charged, deactivated }) => charged > 0 && deactivated === 0))
  assert.equal(await feesOf('a'), { fees: PARTNERS, partners: PARTNERS })
  assert.is(await wrongPartners('a'), 0)
})

killing('charges each once when both processes are killed half-way and a third goes on', async () => {
  await makeDuePartners('b')
  // They are not done with the last partner before they are killed, however long the machine keeps this process from that.
  const last = await hold('ptn_b99')
  const [one, two] = [check(), check()]
  await until('a quarter of the fees', async () => (await feesOf('b')).fees > PARTNERS / 4, 60_000)
  one.kill('SIGKILL')
  await one.ended
  await until('half of the fees', async () => (await feesOf('b')).fees > PARTNERS / 2, 60_000)
  two.kill('SIGKILL')
  await two.ended
  await last.commit()
  const before = (await feesOf('b')).fees
  assert.ok(before < PARTNERS, 'they were killed half-way')
  const third = check()
  assert.is(await third.ended, 0, third.lines.join('\n'))
  // A commit that was under way when its process died may have landed after the look: one a process.
  const { charged } = counted(third.lines)
  assert.ok(charged <= PARTNERS - before && charged >= PARTNERS - before - 2, `${charged} after ${before}`)
  assert.equal(await feesOf('b'), { fees: PARTNERS, partners: PARTNERS })
  assert.is(await wrongPartners('b'), 0)
})

killing('is run by a worker as well, without the operator', async () => {
  await makeDuePartners('c')
  const worker = await startTestWorker(env)
  await worker.services.queue.boss.send('billing.check', {})
  await until('all fees', async () => (await feesOf('c')).fees === PARTNERS, 90_000)
  await worker.stop()
  assert.is(await wrongPartners('c'), 0)
  assert.is((await verifyLedger(db)).broken, null)
})

killing.after(closeAll)

killing.run()

// Everything that adds up orders, at a growing number of closed orders of the last 30 days: leaderboard, leaders'
// records, usage and the standing of a follow. Single requests over HTTP; the sums of whole days are made by the
// worker as they are in production.
import { type Db, rows } from '../../db/postgres/connection.ts'
import { addUpTraderDays } from '../../db/traders/days.ts'
import { print } from './report.ts'
import { call, each, ms, type Stage, setStage, spread } from './stage.ts'

const TRADERS = 1000
const GROUP = 50_000
const ROUNDS = 40

/** The part `sums` of the benchmark. */
export async function sums(): Promise<void> {
  const stage = await setStage()
  const { address } = await stage.startApi()
  print(
    'Sums over orders closed in 30 days, 1,000 traders, p50 / p95 of single requests',
    ['orders', 'leaderboard', 'leaders', 'global leaders', 'usage', 'follow standing', 'adding up all'],
    await measure(stage, { address, sizes: [1000, 100_000, 1_000_000] })
  )
  await stage.close()
}

async function measure(stage: Stage, { address, sizes }: { address: string; sizes: number[] }): Promise<string[][]> {
  const { db, key } = stage
  const traders = await stage.makeTraders(address, TRADERS)
  await prepare(db, stage.partnerId, traders)
  const body: string[][] = []
  let have = 0
  for (const size of sizes) {
    const groups = Array.from({ length: Math.ceil((size - have) / GROUP) }, () => Math.min(GROUP, size - have))
    await each(groups, 1, count => fill(db, stage.partnerId, count))
    have = size
    // As autovacuum does within a minute.
    await db.raw('vacuum analyze')
    const startedAt = performance.now()
    while (await addUpTraderDays(db));
    const addedMs = performance.now() - startedAt
    await db.raw('vacuum analyze trader_days')
    const cells: string[] = []
    for (const path of [
      '/v1/community/leaderboard',
      '/v1/copy/leaders',
      '/v1/copy/leaders?scope=global',
      '/v1/usage',
      `/v1/copy/me?traderExternalId=${traders[1]}`
    ]) {
      const times: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        const before = performance.now()
        await call({ address, key, path })
        times.push(performance.now() - before)
      }
      const { p50, p95 } = spread(times)
      cells.push(`${ms(p50)} / ${ms(p95)}`)
    }
    body.push([size.toLocaleString('en'), ...cells, ms(addedMs)])
  }
  return body
}

/** Public profiles for all, and one trader that follows another. */
async function prepare(db: Db, partnerId: string, traders: string[]): Promise<void> {
  await rows(
    db,
    `insert into community_profiles (partner_id, party_id, is_public)
     select :partnerId, id, true from traders where external_id = any(:traders) union all select :partnerId, :partnerId, true`,
    { partnerId, traders }
  )
  await rows(
    db,
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance, since)
     select 'fol_' || substr(f.id, 5), f.partner_id, f.id, f.external_id, l.id, 50, 90, 'ACTIVE', 1000000, now() - interval '31 days'
       from traders f join traders l on l.external_id = :leader where f.external_id = :follower`,
    { leader: traders[0], follower: traders[1] }
  )
}

/** Orders closed at random instants of 30 days, of all traders in turn; a tenth of them copies of the one follow. */
async function fill(db: Db, partnerId: string, count: number): Promise<void> {
  await rows(
    db,
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id,
         dialect, kind, client_order_id, copied_from, follow_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase,
         created_at, queued_at, expires_at, broker_order_id, buy_price, payout, opened_at, pnl, entry_price, exit_price, closed_at)
     select 'ord_' || gen_random_uuid(), t.partner_id, t.id, t.external_id, a.id, a.account_id, 'DEMO', 'USD', '1', 'v3', 'BINARY',
            gen_random_uuid()::text, null, case when n % 10 = 0 then f.id end, '\\x00', 'R_100', 'CALL', 1, 1, 't', 'closed',
            d.at, d.at, d.at, gen_random_uuid()::text, 1, 1.95, d.at, case when random() < 0.5 then -1 else 0.95 end, 100, 101, d.at
       from generate_series(1, :count::int) n
      cross join lateral (select now() - random() * interval '30 days' + n * interval '0' as at) d
       join (select *, row_number() over (order by id) as place from traders where partner_id = :partnerId) t on t.place = 1 + n % ${TRADERS}
       join broker_accounts a on a.id = t.active_account_id
      cross join (select id from follows where partner_id = :partnerId limit 1) f`,
    { count, partnerId }
  )
}

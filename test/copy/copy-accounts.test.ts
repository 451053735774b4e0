// The migration that gives follows their account: what it makes of follows that were there before.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { up } from '../../db/migrations/0032_copy_accounts.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()
const migration = suite('the migration that pins follows')

/** The tables as they were before. */
async function takeBack(): Promise<void> {
  await db.raw(`
    drop index orders_unfinished_copies, orders_to_close;
    alter table orders drop column raised_to_minimum, drop column closed_early, drop column close_at, drop column close_tries;
    drop index follows_leader;
    alter table follows drop constraint follows_status_check,
      add constraint follows_status_check check (status in ('ACTIVE', 'PAUSED_DRAWDOWN', 'STOPPED')),
      drop column broker_account_id, drop column account_id, drop column account_mode, drop column currency,
      drop column mirror_closes, drop column skipped_copies, drop column skipped_order, drop column skipped_reason,
      drop column skipped_at;
    create index follows_leader on follows (leader_id, id) where status = 'ACTIVE'`)
}

const addFollow = (id: string, follower: TestTrader, leader: TestTrader, columns: object = {}) =>
  db('follows').insert({
    id,
    partner_id: partner.partnerId,
    trader_id: follower.traderId,
    trader_external_id: follower.traderExternalId,
    leader_id: leader.traderId,
    risk_pct: 100,
    max_drawdown_pct: 20,
    status: 'ACTIVE',
    base_balance: 100,
    since: new Date(Date.now() - 60_000),
    ...columns
  })

migration(
  'keeps the account of the first copy, else the active one, and pauses what differs from the leader',
  async () => {
    const leader = await partner.makeTrader()
    const [same, mode, currency, unknown, stopped, switched] = await Promise.all(
      ['USD', 'USD', 'EUR', null, 'EUR', 'USD'].map(code => partner.makeTrader({ currency: code }))
    )
    await db('broker_accounts').where({ trader_id: mode?.traderId }).update({ account_mode: 'REAL' })
    await insertOrderRows(db, leader, {})
    await takeBack()
    for (const [id, follower] of Object.entries({ same, mode, currency, unknown, switched }))
      await addFollow(`fol_${id}`, follower as TestTrader, leader)
    await addFollow('fol_stopped', stopped as TestTrader, leader, { status: 'STOPPED' })
    // Its copy went to the account that was active then; another one is active now.
    await insertOrderRows(db, switched as TestTrader, {})
    await db.raw(
      `update orders set client_order_id = null, follow_id = 'fol_switched', copied_from = (select id from orders where trader_id = :leader)
      where trader_id = :trader`,
      { leader: leader.traderId, trader: (switched as TestTrader).traderId }
    )
    await db.raw(
      `with other as (
       insert into broker_accounts (id, partner_id, trader_id, account_id, account_mode, currency, token_key_id, token_sealed)
       select 'acc_other', partner_id, trader_id, 'CR1', 'REAL', 'USD', token_key_id, token_sealed
         from broker_accounts where trader_id = :trader returning id, trader_id)
     update traders t set active_account_id = other.id from other where t.id = other.trader_id`,
      { trader: (switched as TestTrader).traderId }
    )
    await up(db)
    const found = await db('follows').select('id', 'status', 'account_id', 'account_mode', 'currency').orderBy('id')
    const line = (id: string, trader: TestTrader | undefined, ...rest: (string | null)[]) =>
      [`fol_${id}`, rest[0], trader?.accountId, rest[1], rest[2]].join(' ')
    assert.equal(
      found.map(row => [row.id, row.status, row.account_id, row.account_mode, row.currency].join(' ')),
      [
        line('currency', currency, 'PAUSED_MISMATCH', 'DEMO', 'EUR'),
        line('mode', mode, 'PAUSED_MISMATCH', 'REAL', 'USD'),
        line('same', same, 'ACTIVE', 'DEMO', 'USD'),
        line('stopped', stopped, 'STOPPED', 'DEMO', 'EUR'),
        line('switched', switched, 'ACTIVE', 'DEMO', 'USD'),
        line('unknown', unknown, 'ACTIVE', 'DEMO', null)
      ]
    )
  }
)

migration.after(closeAll)
migration.run()

// The tables of the ledger: what PostgreSQL refuses by itself, to the owner of the tables too.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { balanceOf, lockAccounts, move, transfer } from '../../db/money/ledger.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { newReference, partnerWith, refused } from '../support/money-makers.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 4, name: 'tables-test' })
const newPartner = (balanceUsd = '0') => partnerWith(db, balanceUsd)

const tables = suite('the tables of the ledger')

tables('refuse to change or delete an entry', async () => {
  await newPartner('5')
  await refused(db.raw('update ledger_entries set amount = amount * 2'), /only grows: update of ledger_entries/)
  await refused(db.raw('update ledger_entries set balance = 7 where version = 1'), /only grows/)
  await refused(db.raw('delete from ledger_entries'), /only grows: delete of ledger_entries/)
  await refused(db.raw('truncate ledger_entries cascade'), /only grows: truncate/)
})

tables('refuse to change or delete a transfer', async () => {
  await newPartner('5')
  await refused(db.raw(`update ledger_transfers set details = '{}'`), /only grows: update of ledger_transfers/)
  await refused(db.raw('delete from ledger_transfers'), /only grows: delete of ledger_transfers/)
  await refused(db.raw('truncate ledger_transfers, ledger_entries'), /only grows: truncate/)
})

tables('refuse a balance that no entry brought about', async () => {
  const partner = await newPartner('5')
  await refused(
    db.raw('update ledger_accounts set balance = 1000000 where id = ?', [`wallet:${partner}`]),
    /only grows: update of ledger_accounts/
  )
  await refused(db.raw('delete from ledger_accounts'), /only grows: delete/)
  await refused(db.raw('truncate ledger_accounts cascade'), /only grows: truncate/)
  const other = await newPartner()
  await refused(
    db.raw('insert into ledger_accounts (id, balance) values (?, 10)', [`wallet:${other}`]),
    /must be opened empty/
  )
})

tables('refuse an account of nobody or without a meaning', async () => {
  await refused(db.raw(`insert into ledger_accounts (id) values ('wallet:ptn_nobody')`), /foreign key/)
  await refused(db.raw(`insert into ledger_accounts (id) values ('pocket:ptn_nobody')`), /ledger_accounts_name/)
})

const raw = (id: string, amount: string, entries: [string, string][]) =>
  db.raw(
    `with t as (insert into ledger_transfers (id, reference, kind, amount) values (?, ?, 'sale', ?) returning id)
     insert into ledger_entries (account_id, version, transfer_id, amount, balance)
     select v.account, 0, t.id, v.amount, 0
       from t cross join jsonb_to_recordset(?::jsonb) as v (account text, amount numeric)`,
    [id, newReference(), amount, JSON.stringify(entries.map(([account, value]) => ({ account, amount: value })))]
  )

tables('refuse a transfer that does not balance', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  await refused(
    raw('t1', '5', [
      [`wallet:${a}`, '-5'],
      [`wallet:${b}`, '4.99']
    ]),
    /does not balance/
  )
  await refused(raw('t2', '5', [[`wallet:${b}`, '5']]), /does not balance/)
  await refused(
    raw('t3', '5', [
      [`wallet:${a}`, '-4'],
      [`wallet:${b}`, '4']
    ]),
    /does not balance/
  )
  await refused(
    raw('t4', '0', [
      [`wallet:${a}`, '0'],
      [`wallet:${b}`, '0']
    ]),
    /amount_check/
  )
  await refused(raw('t5', '5', []), /has no entries/)
  assert.is(await balanceOf(db, `wallet:${b}`), '10.00')
})

tables('refuse entries added to a transfer of the past', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  const { transferId } = await transfer(db, {
    reference: newReference(),
    kind: 'refund',
    entries: move(`wallet:${a}`, `wallet:${b}`, '1')
  })
  await refused(
    db.raw(
      `insert into ledger_entries (account_id, version, transfer_id, amount, balance)
       values ('fees', 0, ?, -1, 0), ('world', 0, ?, 1, 0)`,
      [transferId, transferId]
    ),
    /does not balance/
  )
})

tables('refuse an entry that a transfer has already, and leave the balance as it was', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  const { transferId } = await transfer(db, {
    reference: newReference(),
    kind: 'refund',
    entries: move(`wallet:${a}`, `wallet:${b}`, '1')
  })
  // As somebody may repeat a repair.
  const again = db.raw(
    `insert into ledger_entries (account_id, version, transfer_id, amount, balance) values (?, 0, ?, 1, 0) on conflict do nothing`,
    [`wallet:${b}`, transferId]
  )
  await refused(again, /has an entry of wallet:.* already/)
  assert.is(await balanceOf(db, `wallet:${b}`), '11.00')
})

tables('refuse a fraction of a cent', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  await refused(
    raw('t6', '0.005', [
      [`wallet:${a}`, '-0.005'],
      [`wallet:${b}`, '0.005']
    ]),
    /usd_check/
  )
})

tables('refuse a wallet or a held account below zero', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  await refused(
    raw('t7', '10.01', [
      [`wallet:${a}`, '-10.01'],
      [`wallet:${b}`, '10.01']
    ]),
    /ledger_accounts_covered/
  )
  await db.raw('insert into ledger_accounts (id) values (?)', [`held:${a}`])
  await refused(
    raw('t8', '0.01', [
      [`held:${a}`, '-0.01'],
      [`wallet:${b}`, '0.01']
    ]),
    /ledger_accounts_covered/
  )
})

tables('compute balance and version themselves, whatever an insert claims', async () => {
  const a = await newPartner()
  const insert = () =>
    db.raw(
      `with t as (insert into ledger_transfers (id, reference, kind, amount) values ('t9', 't9', 'topup', 3) returning id)
       insert into ledger_entries (account_id, version, transfer_id, amount, balance)
       select v.account, 77, t.id, v.amount, 1000 from t cross join (values ('world', -3), (?, 3)) as v (account, amount)`,
      [`wallet:${a}`]
    )
  await refused(insert(), /is not open/)
  await lockAccounts(db, [`wallet:${a}`])
  await insert()
  const entry = await db('ledger_entries')
    .where({ account_id: `wallet:${a}` })
    .first('version', 'balance')
  assert.equal(entry, { version: 1, balance: '3.00' })
})

tables.after(async () => {
  await db.destroy()
  await closeAll()
})

tables.run()

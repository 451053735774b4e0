// A trader's data given out and erased by the operator: every column is decided on, nothing that names the person is left,
// what must be kept is.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCommunityBot, likeCommunityBot } from '../../api/community/bots.ts'
import {
  deleteMessage,
  getCommunityProfile,
  listMessages,
  postMessage,
  updateCommunityProfile
} from '../../api/community/community.ts'
import { createStreamTicket } from '../../api/events/stream/tickets.ts'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { listOrders } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import {
  changePassword,
  disableTrader,
  enableTrader,
  endSessions,
  resetPassword
} from '../../api/traders/credentials.ts'
import { getTraderMe, logInTrader } from '../../api/traders/traders.ts'
import { collectTrade } from '../../api/traders/trades.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import type { OrderTerms } from '../../db/orders/inserting.ts'
import { storeOrders } from '../../db/orders/storing.ts'
import { getPartner, setBroker } from '../../db/partners/partners.ts'
import { insertTraderSession } from '../../db/partners/sessions.ts'
import { hashPassword } from '../../db/platform/passwords.ts'
import { unsealToken } from '../../db/traders/accounts.ts'
import { insertReset } from '../../db/traders/credentials.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import { personalData, withoutTraders } from '../../db/traders/personal-data.ts'
import { saveRenewed } from '../../db/traders/token-renewal.ts'
import { closeAll, newAccountId, onClose, openHarness, until } from '../support/harness.ts'
import { countLockWaits, untilLockWaits } from '../support/lock-waits.ts'
import { makeBot } from '../support/marketplace-makers.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const { services, env, makePartner } = await openHarness()
const { db, pepper, vault } = services
const partner = await makePartner()
const dir = await mkdtemp(join(tmpdir(), 'operator-erasure-'))
onClose(() => rm(dir, { recursive: true, force: true }))
const run = (...args: string[]) => operator(env, 'traders', ...args, '--json')
const erase = (trader: string) => run('erase', trader, '--reason', 'request of a person', '--yes')
const password = 'correct horse battery'

/** Has bots of the partner and its traders earn. */
const earn = (amountUsd: string) =>
  transfer(db, {
    reference: `earned:${randomUUID()}`,
    kind: 'sale',
    entries: move(accounts.world, accounts.earnings(partner.partnerId), amountUsd)
  })

/** A trader with a row in everything that a trader may have by its own doing; `word` is in all that names it. */
async function makePerson(word = `w${randomUUID().replaceAll('-', '')}`) {
  const externalId = `${word}-id`
  const email = `${word}@example.com`
  const trader = await partner.makeTrader({ externalId, token: `sim-${word}`, accountId: newAccountId() })
  const { traderId } = trader
  await db('traders')
    .where({ id: traderId })
    .update({ email, name: word, password_hash: await hashPassword(partner.partnerId, password) })
  const session = await insertTraderSession(db, pepper, { partnerId: partner.partnerId, traderId, ttlHours: 1 })
  const as = { headers: { 'x-trader-session': session.token } }
  const responses = [
    await partner.call(updateCommunityProfile, { ...as, body: { displayName: word, bio: word, isPublic: true } }),
    await partner.call(postMessage, { ...as, body: { content: `I am ${word}` } }),
    await partner.call(createStreamTicket, { ...as, body: { traderExternalId: externalId } }),
    await partner.call(collectTrade, {
      body: {
        trader_external_id: externalId,
        stake_amount: 10,
        contract_type: 'CALL',
        broker_contract_id: `contract-${randomUUID()}`,
        client_broker_loginid: 'CR1234567',
        profit_loss: 9.53,
        trade_timestamp: '2026-01-02T03:04:05Z',
        metadata: { by: word }
      }
    })
  ]
  const bot = await partner.call(createCommunityBot, { ...as, body: { name: `Bot of ${word}`, config: {} } })
  for (const { status, body } of [...responses, bot]) assert.is(status, 200, JSON.stringify(body))
  await insertReset(db, pepper, traderId)
  await insertOrderRows(db, trader, { count: 3 })
  return { ...trader, word, email, as }
}

/** Tables with a row in which this text is; the audit log among them, and not what expires by itself. */
async function tablesWith(text: string): Promise<string[]> {
  const found: string[] = []
  for (const table of [...Object.keys(personalData), ...withoutTraders]) {
    if (personalData[table]?.becomes === 'expires') continue
    const { rows } = await db.raw(`select count(*) as count from ${table} t where t::text like ?`, [`%${text}%`])
    if (rows[0].count > 0) found.push(table)
  }
  return found
}

const deciding = suite('the table of decisions')

deciding("has each table of the schema, or marks it as without traders' data", async () => {
  const { rows } = await db.raw(
    `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`
  )
  const tables = rows.map(({ relname }: { relname: string }) => relname).sort()
  assert.equal([...Object.keys(personalData), ...withoutTraders].sort(), tables)
})

deciding('has each column of a table of which some columns are kept and some are not', async () => {
  const { rows } = await db.raw(
    `select table_name, array_agg(column_name::text order by column_name::text collate "C") as columns
       from information_schema.columns where table_schema = 'public' group by table_name`
  )
  const known = new Map<string, string[]>(
    rows.map(({ table_name, columns }: { table_name: string; columns: string[] }) => [table_name, columns])
  )
  for (const [table, { becomes, secret = [] }] of Object.entries(personalData)) {
    if (typeof becomes === 'object') assert.equal(Object.keys(becomes).sort(), known.get(table)?.toSorted(), table)
    for (const column of secret) assert.ok(known.get(table)?.includes(column), `${table}.${column}`)
  }
  // By its name a column of the other tables is no trader's either.
  for (const table of withoutTraders)
    for (const column of known.get(table) ?? [])
      assert.not.match(column, /^(trader|trader_id|trader_external_id|party_id|account_id|email|.*loginid)$/, table)
})

const exporting = suite('operator traders export')

exporting('gives out what is the trader’s, without secrets and without what is another’s', async () => {
  const [anna, other] = [await makePerson(), await makePerson()]
  await services.requests.flush()
  const { json, exitCode, stdout } = await run('export', anna.traderId)
  assert.is(exitCode, 0)
  const tables = Object.keys(json.tables)
  for (const table of [
    'traders',
    'broker_accounts',
    'sessions',
    'password_resets',
    'stream_tickets',
    'community_profiles',
    'community_messages',
    'community_bots',
    'orders',
    'trade_records',
    'requests'
  ])
    assert.ok(tables.includes(table), table)
  assert.is(json.tables.orders.length, 3)
  assert.is(json.tables.traders[0].email, anna.email)
  assert.not.match(stdout, /password_hash|token_sealed|"hash"|refresh_sealed/)
  assert.not.match(stdout, new RegExp(`${other.word}|${other.traderId}`))
})

exporting('writes JSON lines into a new file that only its owner reads, and is in the audit log', async () => {
  const anna = await makePerson()
  const file = join(dir, 'anna.jsonl')
  const { json } = await run('export', anna.email, '--file', file)
  const lines = (await readFile(file, 'utf8')).trim().split('\n')
  assert.is(lines.length, json.rows)
  assert.equal(lines.map(line => JSON.parse(line)).filter(({ table }) => table === 'orders').length, 3)
  assert.is((await stat(file)).mode & 0o777, 0o600)
  assert.is((await run('export', anna.email, '--file', file)).exitCode, 1)
  const entries = await db('audit_log').where({ target: anna.traderId }).select('action')
  assert.equal(entries, [{ action: 'traders.export' }])
})

exporting('gives out numbers with all their digits, in a document and in a file', async () => {
  const anna = await makePerson()
  const exact = '123456789012.123456789012345678'
  await db('orders').where({ trader_id: anna.traderId }).update({ markup: exact })
  const file = join(dir, 'exact.jsonl')
  await run('export', anna.traderId, '--file', file)
  const { stdout } = await run('export', anna.traderId)
  for (const text of [stdout, await readFile(file, 'utf8')])
    assert.equal(
      [...text.matchAll(/"markup": ?([^,}\s]*)/g)].map(([, number]) => number),
      [exact, exact, exact]
    )
})

exporting('leaves no file that is only a part', async () => {
  const anna = await makePerson()
  const file = join(dir, 'part.jsonl')
  await db.raw('alter table contract_breaks rename to contract_breaks_away')
  const { exitCode } = await run('export', anna.traderId, '--file', file)
  await db.raw('alter table contract_breaks_away rename to contract_breaks')
  assert.is(exitCode, 1)
  assert.is(await stat(file).catch(() => undefined), undefined)
})

exporting('is in the audit log also where it broke off', async () => {
  const anna = await makePerson()
  await db.raw(
    `insert into stream_tickets (hash, partner_id, key_id, trader_external_id, channels, expires_at)
     select sha256(cast(cast(:name as text) || i as bytea)), :partnerId, :keyId, :name, '{}', now() from generate_series(1, 20001) i`,
    { partnerId: partner.partnerId, keyId: partner.keyId, name: anna.traderExternalId }
  )
  const { exitCode, stderr } = await run('export', anna.traderId)
  assert.is(exitCode, 1)
  assert.match(stderr, /more than 20000 rows/)
  const entries = await db('audit_log').where({ target: anna.traderId }).select('action')
  assert.equal(entries, [{ action: 'traders.export' }])
})

const erasing = suite('operator traders erase')

erasing('refuses while an order, a bot or money is under way, and changes nothing', async () => {
  const anna = await makePerson()
  await insertOrderRows(db, anna, { phase: 'open' })
  const bot = await makeBot(partner, {}, anna.as.headers)
  const refused = await erase(anna.traderId)
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, /^CONFLICT: .* 1 orders are not final.*; 1 bots are published/)
  assert.is((await partner.call(getTraderMe, anna.as)).status, 200)
  assert.ok((await tablesWith(anna.word)).includes('traders'))
  await db('orders')
    .where({ trader_id: anna.traderId, phase: 'open' })
    .update({ phase: 'failed', error_code: 'ORDER_EXPIRED' })
  await db('marketplace_bots').where({ id: bot }).update({ status: 'RETIRED', net: '7.50' })
  await earn('7.50')
  assert.match((await erase(anna.traderId)).stderr, /^CONFLICT: .* 7\.50 USD are available: pay/)
  const wanted = { amountUsd: 7.5, destinationAddress: 'T'.repeat(34) }
  const { body } = await partner.call(requestPayout, { ...anna.as, body: wanted })
  assert.match((await erase(anna.traderId)).stderr, /^CONFLICT: .* 7\.50 USD held: pay/)
  for (const step of ['approve', 'paid'])
    await operator(
      env,
      'payouts',
      step,
      body.payoutId,
      ...(step === 'paid' ? ['--reference'] : ['--reason']),
      'a test',
      '--yes'
    )
  const { exitCode, stderr } = await erase(anna.traderId)
  assert.is(exitCode, 0, stderr)
})

erasing('does not wait for money that nobody can pay out to the trader', async () => {
  const [anna, bert] = [await makePerson(), await makePerson()]
  // Of the one the partner itself had the earnings paid out, of the other a buyer was paid back after a payout.
  for (const [person, net] of [
    [anna, '7.50'],
    [bert, '-5.00']
  ] as const) {
    const bot = await makeBot(partner, {}, person.as.headers)
    await db('marketplace_bots').where({ id: bot }).update({ status: 'RETIRED', net })
  }
  await earn('7.50')
  await partner.call(requestPayout, { body: { amountUsd: 7.5, destinationAddress: 'T'.repeat(34) } })
  for (const { traderId } of [anna, bert]) {
    const { exitCode, stderr } = await erase(traderId)
    assert.is(exitCode, 0, stderr)
  }
})

erasing('refuses while a subscription runs, to a bot of the trader or of its own', async () => {
  const [anna, fan] = [await makePerson(), await makePerson()]
  const bot = await makeBot(partner, {}, anna.as.headers)
  await db('marketplace_bots').where({ id: bot }).update({ status: 'RETIRED' })
  const id = `sub_${randomUUID()}`
  await db('marketplace_subscriptions').insert({
    ...{ id, bot_id: bot, partner_id: partner.partnerId, party_id: fan.traderId },
    ...{ price: '5.00', current_period_end: new Date(Date.now() + 86_400_000) }
  })
  for (const status of ['ACTIVE', 'PAST_DUE']) {
    await db('marketplace_subscriptions').where({ id }).update({ status })
    assert.match((await erase(anna.traderId)).stderr, /^CONFLICT: .* 1 subscriptions to its bots run/)
    assert.match((await erase(fan.traderId)).stderr, /^CONFLICT: .* 1 subscriptions of its own run/)
  }
  await db('marketplace_subscriptions').where({ id }).update({ status: 'CANCELED', canceled_at: new Date() })
  for (const { traderId } of [fan, anna]) assert.is((await erase(traderId)).exitCode, 0)
})

erasing('stops those who follow the trader', async () => {
  const [anna, fan] = [await makePerson(), await makePerson()]
  await db('follows').insert({
    ...{ id: `fol_${randomUUID()}`, partner_id: partner.partnerId, trader_id: fan.traderId, leader_id: anna.traderId },
    ...{ trader_external_id: fan.traderExternalId, status: 'ACTIVE' },
    ...{ risk_pct: 10, max_drawdown_pct: 20, base_balance: 1000 }
  })
  assert.is((await erase(anna.traderId)).json.tables.follows, 1)
  assert.is((await db('follows').where({ leader_id: anna.traderId }).first('status'))?.status, 'STOPPED')
})

erasing('leaves the person’s name, e-mail, words and id nowhere, and keeps orders, records and sums', async () => {
  const anna = await makePerson()
  const fan = await makePerson()
  const [{ id: botId }] = await db('community_bots').where({ party_id: fan.traderId }).select('id')
  await partner.call(likeCommunityBot, { ...anna.as, params: { id: botId } })
  const before = await tablesWith(anna.word)
  assert.ok(before.length >= 7, before.join())
  const { json, exitCode, stderr } = await erase(anna.traderId)
  assert.is(exitCode, 0, stderr)
  assert.is(json.tables.orders, 3)
  assert.equal(await tablesWith(anna.word), [])
  // What is kept names it by our own id alone.
  const { orders } = Object.fromEntries(
    (await db('orders').where({ trader_id: anna.traderId }).select('trader_external_id', 'phase')).map(row => [
      'orders',
      row
    ])
  )
  assert.equal(orders, { trader_external_id: `erased-${anna.traderId}`, phase: 'closed' })
  assert.is((await db('trade_records').where({ trader_external_id: `erased-${anna.traderId}` })).length, 1)
  assert.is((await db('community_bots').where({ id: botId }).first('likes'))?.likes, 0)
  const [account] = await db('broker_accounts').where({ trader_id: anna.traderId })
  const { id, token_key_id: keyId, token_sealed: sealed, account_id: accountId } = account
  assert.equal([accountId, unsealToken(vault, id, { keyId, sealed })], [anna.accountId, ''])
  // A worker had taken the renewal of the token that was there.
  const taken = { appIds: ['1'], accounts: [{ id, accountId, version: 1 }], refreshToken: 'old', wasInterrupted: false }
  assert.is(await saveRenewed(db, vault, taken, { token: 'renewed', refreshToken: 'new', expiresInSeconds: 60 }), 0)
  const [entry] = await db('audit_log').where({ target: anna.traderId, action: 'traders.erase' })
  assert.is(entry.details.reason, 'request of a person')
  assert.is(entry.details.tables.orders, 3)
})

erasing('leaves no name in an order that another transaction changes meanwhile', async () => {
  const anna = await makePerson()
  const change = await db.transaction()
  // Held for as long as the command takes to start on a busy machine.
  await change.raw('set local idle_in_transaction_session_timeout = 0')
  await change('orders')
    .where({ id: (await db('orders').where({ trader_id: anna.traderId }).first('id')).id })
    .update({ markup: '0.1' })
  const erased = erase(anna.traderId)
  await untilLockWaits(db, { text: 'update orders set' }).finally(() => change.commit())
  const { stdout, exitCode, stderr } = await erased
  assert.is(exitCode, 0, stderr)
  assert.is(JSON.parse(stdout).tables.orders, 3)
  assert.equal(await tablesWith(anna.word), [])
})

erasing('refuses what would be stored for the trader meanwhile, and keeps no other request waiting', async () => {
  const anna = await makePerson()
  const { word, as } = anna
  const fan = await makePerson()
  const [{ id: botId }] = await db('community_bots').where({ party_id: fan.traderId }).select('id')
  await partner.call(likeCommunityBot, { ...as, params: { id: botId } })
  const [{ id: messageId }] = await db('community_messages').where({ party_id: anna.traderId }).select('id')
  const holding = await db.transaction()
  // Held for as long as the command takes to start on a busy machine.
  await holding.raw('set local idle_in_transaction_session_timeout = 0')
  await holding('trade_records').where({ trader_external_id: anna.traderExternalId }).update({ symbol: 'R_10' })
  const erased = erase(anna.traderId)
  await untilLockWaits(db, { text: 'update trade_records set' })
  const { accountId, traderExternalId, traderId, email } = anna
  const account = { accountId, token: `sim-${word}`, accountMode: 'DEMO', currency: 'USD' }
  const writes = [
    partner.call(postMessage, { ...as, body: { content: `I am ${word} still` } }),
    partner.call(updateCommunityProfile, { ...as, body: { displayName: word, isPublic: true } }),
    partner.call(createCommunityBot, { ...as, body: { name: `Last bot of ${word}`, config: {} } }),
    partner.call(activateAccount, { body: { traderExternalId, accountId } }),
    partner.call(exchangeTokens, { body: { traderExternalId, accounts: [account] } }),
    partner.call(logInTrader, { body: { email, password } }),
    partner.call(changePassword, { ...as, body: { currentPassword: password, newPassword: 'the second password' } }),
    partner.call(resetPassword, { body: { email } }),
    partner.call(disableTrader, { params: { traderId } })
  ]
  // Behind the writes, of which some need the trader's session.
  const others = Promise.all(writes).then(() =>
    Promise.all([
      partner.call(likeCommunityBot, { params: { id: botId } }),
      partner.call(deleteMessage, { params: { id: messageId } }),
      partner.call(endSessions, { body: { traderId } })
    ])
  )
  // Each ends while the erasure goes on; one that waited for it would be refused only after the limit of waits for locks.
  await Promise.race([others, until('a wait for the erasure', async () => (await countLockWaits(db)) > 1)])
  const waits = await countLockWaits(db)
  await holding.commit()
  assert.is(waits, 1, 'the erasure alone waits')
  for (const { body, headers } of await Promise.all(writes))
    assert.equal([body.error, headers.get('retry-after')], ['UNAVAILABLE', '1'])
  for (const { status } of await others) assert.is(status, 200)
  const { exitCode, stderr } = await erased
  assert.is(exitCode, 0, stderr)
  assert.is((await db('traders').where({ id: anna.traderId }).first()).active_account_id, null)
  assert.equal(await tablesWith(word), [])
})

erasing('waits for a repeat of an order that failed, and is refused while that is queued', async () => {
  const { traderId, traderExternalId } = await partner.makeTrader()
  const terms: OrderTerms = {
    ...{ kind: 'BINARY' as const, asset: 'R_100', contractType: 'CALL', stake: '1', duration: 1, durationUnit: 't' },
    ...{ direction: null, multiplier: null, barrier: null, stopLoss: null, takeProfit: null }
  }
  const about = { partnerId: partner.partnerId, traderExternalId, clientOrderId: randomUUID(), terms, ttlMs: 60_000 }
  const store = () =>
    storeOrders(db, services.queue, [{ ...about, accountMode: null, caller: null, replyChannel: null }])
  await store()
  const failed = { phase: 'failed', error_code: 'BROKER_UPSTREAM', error_message: 'no', retryable: true }
  const order = () => db('orders').where({ trader_id: traderId })
  await order().update(failed)
  const holding = await db.transaction()
  await holding('orders').where({ trader_id: traderId }).forUpdate().first('id')
  const repeated = store()
  await untilLockWaits(db, { work: repeated })
  const erased = db.transaction(trx => eraseTrader(trx, vault, traderId)).catch((error: Error) => error.message)
  await untilLockWaits(db, { count: 2, work: erased })
  await holding.commit()
  assert.is((await repeated)[0]?.order?.phase, 'unproven')
  assert.match(String(await erased), '1 orders are not final')
  assert.is((await order().first()).trader_external_id, traderExternalId)
  // One whose trader has been erased is not repeated for another one of the same name.
  await order().update(failed)
  await db.transaction(trx => eraseTrader(trx, vault, traderId))
  await partner.makeTrader({ externalId: traderExternalId })
  const [again] = await store()
  assert.equal([again?.order?.phase, (await order().first()).phase], ['failed', 'failed'])
})

erasing('ends what the trader could do, and leaves others as they are', async () => {
  const [anna, other] = [await makePerson(), await makePerson()]
  assert.is((await erase(anna.traderId)).exitCode, 0)
  assert.is((await partner.call(getTraderMe, anna.as)).status, 401)
  assert.is(
    (await partner.call(logInTrader, { body: { email: anna.email, password } })).body.error,
    'INVALID_CREDENTIALS'
  )
  const query = { traderExternalId: anna.traderExternalId }
  for (const { body } of [await partner.call(listAccounts, { query }), await partner.call(listOrders, { query })])
    assert.is(body.error, 'TRADER_NOT_FOUND')
  const words = (await partner.call(listMessages)).body.data.map(({ content }: { content: string }) => content)
  assert.equal([words.includes(`I am ${anna.word}`), words.includes(`I am ${other.word}`)], [false, true])
  assert.is((await partner.call(getCommunityProfile, other.as)).body.displayName, other.word)
  assert.is((await partner.call(logInTrader, { body: { email: other.email, password } })).status, 200)
  // Neither switch is for a trader that is there no more.
  const row = () => db('traders').where({ id: anna.traderId }).first()
  const erased = await row()
  for (const each of [enableTrader, disableTrader])
    assert.is((await partner.call(each, { params: { traderId: anna.traderId } })).body.error, 'NOT_FOUND')
  assert.equal(await row(), erased)
})

erasing('leaves its accounts refused when its partner moves to another application', async () => {
  const [anna, other] = [await makePerson(), await makePerson()]
  await db('broker_accounts').where({ trader_id: other.traderId }).update({ status: 'REJECTED' })
  await erase(anna.traderId)
  const { brokerDialect: dialect, brokerAppId: appId } = await getPartner(db, partner.partnerId)
  await db.transaction(trx => setBroker(trx, partner.partnerId, { dialect, appId: `${appId}9` }))
  const statuses = async (traderId: string) =>
    (await db('broker_accounts').where({ trader_id: traderId })).map(({ status }) => status)
  assert.equal([await statuses(anna.traderId), await statuses(other.traderId)], [['REJECTED'], ['CONNECTED']])
  await db.transaction(trx => setBroker(trx, partner.partnerId, { dialect, appId }))
})

erasing('changes nothing when repeated, and the partner’s id is free for another trader', async () => {
  const anna = await makePerson()
  await erase(anna.traderId)
  const { exitCode, json } = await erase(anna.traderId)
  assert.equal([exitCode, json.tables], [0, {}])
  assert.is((await db('audit_log').where({ target: anna.traderId, action: 'traders.erase' })).length, 1)
  const again = await partner.call(exchangeTokens, {
    body: {
      traderExternalId: anna.traderExternalId,
      accounts: [{ accountId: anna.accountId, token: `sim-${randomUUID()}`, accountMode: 'DEMO' }]
    }
  })
  assert.is(again.status, 200)
  assert.is.not(again.body.traderId, anna.traderId)
})
erasing.after(closeAll)

deciding.run()
exporting.run()
erasing.run()

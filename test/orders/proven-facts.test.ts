// test in the full run only
// An order is decided on what the api remembers of its key, and stored by a statement that proves it again; GET /v1/me likewise. So each fact
// is changed behind the backs of two api processes that remember the old one: the very next order of each gets the
// documented refusal, or goes by the new fact, and nothing is stored by the old one. `facts` lists them all.
import { randomUUID } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { openKnownKeys } from '../../api/request/known-keys.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { insertKey, type KeyCaller, revokeKey } from '../../db/partners/keys.ts'
import { setBroker, setLimits } from '../../db/partners/partners.ts'
import { suspendPartner } from '../../db/partners/standing.ts'
import { hashSecret, parseApiKey } from '../../db/platform/crypto.ts'
import { type HaltedScope, haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { activateAccount, lockBrokerAccounts, upsertAccount } from '../../db/traders/accounts.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds } from '../support/dialects.ts'
import { call, closeAll, newAccountId, onClose, openHarness, type TestResponse, until } from '../support/harness.ts'
import { startApi, startTestWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 27, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    BROKER_URL: simulator.url,
    BROKER_DIALECT: 'v3',
    TEST_BROKER_URL: simulator.url,
    RATE_LIMIT_LAUNCH: '100001',
    RATE_LIMIT_SCALE: '100002',
    SWEEP_MS: '200'
  }
})
const { db, pepper, vault } = harness.services
await startTestWorker(harness.env)
const processes = await Promise.all([startApi(harness.env), startApi(harness.env)])
const [one, other] = processes.map(({ address }) => address) as [string, string]
/** The line of a request in the log of the first process. */
const logged = (requestId: string) => (processes[0] as TestProcess).line(new RegExp(`"requestId":"${requestId}"`))

/** A partner, or its test side, with a key and a trader. */
interface FactSubject {
  partnerId: string
  /** The partner itself, where `partnerId` is its test side. */
  realId: string
  keyId: string
  key: string
  traderId: string
  traderExternalId: string
  accountId: string
}

async function makeSubject({ test = false } = {}): Promise<FactSubject> {
  const partner = await harness.makePartner()
  const wanted = { partnerId: partner.partnerId, label: null, scopes: defaultScopes, test: true }
  const key = test ? await db.transaction(trx => insertKey(trx, pepper, wanted)) : partner
  const accountId = test ? newAccountId().replace('VRTC', 'TST') : newAccountId()
  const traderExternalId = `user-${randomUUID()}`
  const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }]
  const exchanged = await call(harness.address, exchangeTokens, {
    body: { traderExternalId, accounts },
    headers: { authorization: `Bearer ${key.key}` }
  })
  assert.is(exchanged.status, 200, JSON.stringify(exchanged.body))
  const { traderId } = exchanged.body
  return { ...key, realId: partner.partnerId, traderId, traderExternalId, accountId }
}

// biome-ignore lint/suspicious/noExplicitAny: an order, what GET /v1/me returns, or an error
type FactResponse = TestResponse<any>

/** Places an order of the subject's with one of the processes. */
function place(address: string, { key, traderExternalId }: FactSubject, changes: object = {}): Promise<FactResponse> {
  const body = tickOrder(traderExternalId, { stake: 2, ...changes })
  return call(address, placeBinaryOrder, { body, headers: { authorization: `Bearer ${key}` } })
}

async function placeWell(address: string, subject: FactSubject): Promise<void> {
  const { status, body } = await place(address, subject)
  assert.is(status, 200, JSON.stringify(body))
}

interface FactRow {
  account_id: string
  app_id: string
  phase: string
  sent_at: Date | null
}

/** The orders of a subject that are newer than the first `known`. */
const ordersOf = ({ partnerId }: FactSubject, known = 0) =>
  rows<FactRow>(db, 'select * from orders where partner_id = :partnerId order by created_at, id offset :known', {
    partnerId,
    known
  })

interface Fact {
  /** What changes, as the name of a test. */
  name: string
  /** Changes it, in a transaction. */
  change(trx: Db, subject: FactSubject): Promise<unknown>
  /** The refusal of an order afterwards; without it the order is stored by the new fact. */
  refused?: [status: number, code: ErrorCode]
  /** What else an order shows afterwards: its response, and its row where it is stored. */
  shows?(placed: FactResponse, row: FactRow | undefined, subject: FactSubject): void
  /** That the first order, once the broker has refused it, may have the second one refused before it is stored. */
  endsWithFirst?: true
  /** GET /v1/me is refused like an order, or shows the new fact. */
  me?: 'refused' | ((read: FactResponse, subject: FactSubject) => void)
  /** Of a key of a test side. */
  test?: true
  undo?(trx: Db): Promise<unknown>
}

const updateKey = (changes: object) => (trx: Db, s: FactSubject) =>
  trx('api_keys').where({ id: s.keyId }).update(changes)
const updatePartner = (changes: object) => (trx: Db, s: FactSubject) =>
  trx('partners').where({ id: s.realId }).update(changes)
const updateTrader = (changes: object) => (trx: Db, s: FactSubject) =>
  trx('traders').where({ id: s.traderId }).update(changes)
const rejected = (reason: string) => (trx: Db, s: FactSubject) =>
  trx('broker_accounts').where({ trader_id: s.traderId }).update({ status: 'REJECTED', rejected_reason: reason })
const allows = (policy: RegExp) => (placed: FactResponse) =>
  assert.match(placed.headers.get('ratelimit-policy') ?? '', policy)

/** The subject's second account, or a new token for the first. */
const exchange = async (trx: Db, s: FactSubject, { accountId, token }: { accountId: string; token: string }) => {
  const rowId = (await lockBrokerAccounts(trx, s.traderId, [accountId])).get(accountId)
  return upsertAccount(trx, vault, { ...s, rowId, accountId, token, accountMode: 'DEMO', currency: 'USD' })
}

function halt(scope: HaltedScope['scope'], subjectOf: (s: FactSubject) => string | null = () => null): Fact {
  let halted: HaltedScope
  return {
    name: `orders are halted: ${scope}`,
    async change(trx, subject) {
      halted = { scope, subject: subjectOf(subject) }
      await haltTrading(trx, { ...halted, reason: 'maintenance', actor: 'cli:test' })
    },
    refused: [503, 'TRADING_HALTED'],
    shows: ({ body }) => assert.is(body.scope, scope),
    async undo(trx) {
      await resumeTrading(trx, halted)
      // Workers remember halts for a moment.
      const subject = await makeSubject()
      await until('orders go on', async () => (await place(one, subject)).status === 200)
    }
  }
}

const facts: Fact[] = [
  // The key.
  {
    name: 'the key is revoked',
    change: (trx, s) => revokeKey(trx, s.keyId),
    refused: [403, 'KEY_REVOKED'],
    me: 'refused'
  },
  {
    name: 'the key is gone',
    change: (trx, s) => trx('api_keys').where({ id: s.keyId }).delete(),
    refused: [401, 'UNAUTHENTICATED'],
    me: 'refused'
  },
  {
    name: 'the key has another secret',
    change: updateKey({ hash: Buffer.alloc(32) }),
    refused: [401, 'UNAUTHENTICATED'],
    me: 'refused'
  },
  {
    name: 'the key has fewer scopes',
    change: updateKey({ scopes: ['trading:read'] }),
    refused: [403, 'INSUFFICIENT_SCOPE'],
    me: ({ body }) => assert.equal(body.scopes, ['trading:read'])
  },
  {
    name: 'the key is another partner’s',
    change: async (trx, s) => updateKey({ partner_id: (await harness.makePartner()).partnerId })(trx, s),
    refused: [404, 'TRADER_NOT_FOUND'],
    me({ body }, { partnerId }) {
      assert.is.not(body.partnerId, partnerId)
      assert.is(body.tradersCount, 0)
    }
  },
  // Its partner.
  {
    name: 'the partner is suspended',
    change: (trx, s) => suspendPartner(trx, s.realId, 'test'),
    refused: [403, 'PARTNER_SUSPENDED'],
    me: 'refused'
  },
  {
    name: 'the partner of a test key is suspended',
    test: true,
    change: (trx, s) => suspendPartner(trx, s.realId, 'test'),
    refused: [403, 'PARTNER_SUSPENDED'],
    me: 'refused'
  },
  {
    name: 'the plan is not paid',
    change: updatePartner({ plan_active: false }),
    refused: [402, 'SUBSCRIPTION_INACTIVE'],
    shows: ({ body }) => assert.ok(Number(body.topUpUsd) > 0),
    me: 'refused'
  },
  {
    name: 'the plan is another',
    change: updatePartner({ plan: 'LAUNCH' }),
    shows: allows(/"key";q=100001;/),
    me({ headers, body }) {
      assert.match(headers.get('ratelimit-policy') ?? '', /"key";q=100001;/)
      assert.is(body.plan, 'LAUNCH')
    }
  },
  {
    name: 'the limit of calls of a key is another',
    change: (trx, s) => setLimits(trx, s.realId, { perKeyPerMinute: 5 }),
    shows: allows(/"key";q=5;/)
  },
  {
    name: 'the limit of calls of a trader is another',
    change: (trx, s) => setLimits(trx, s.realId, { perTraderPerMinute: 6 }),
    shows: allows(/"trader";q=6;/)
  },
  {
    name: 'the application at the broker is another',
    change: (trx, s) => setBroker(trx, s.realId, { dialect: 'v3', appId: '1027' }),
    shows: (_, row) => assert.is(row?.app_id, '1027')
  },
  // The trader and the account.
  {
    name: 'the trader is erased',
    change: (trx, s) => eraseTrader(trx, vault, s.traderId),
    refused: [404, 'TRADER_NOT_FOUND']
  },
  {
    name: 'the trader has another name',
    change: updateTrader({ external_id: randomUUID() }),
    refused: [404, 'TRADER_NOT_FOUND']
  },
  {
    name: 'the trader has no account',
    change: updateTrader({ connected_at: null }),
    refused: [404, 'TRADER_NOT_FOUND']
  },
  {
    name: 'the account is refused by the broker',
    change: rejected('TOKEN_REFUSED'),
    refused: [404, 'BROKER_DISCONNECTED']
  },
  {
    name: 'the account’s token has expired',
    change: rejected('TOKEN_EXPIRED'),
    refused: [404, 'BROKER_DISCONNECTED'],
    shows: ({ body }) => assert.match(body.message, /expired/)
  },
  {
    name: 'another account is the active one',
    async change(trx, s) {
      const { accountId } = await exchange(trx, s, {
        accountId: `VRTC9${s.accountId.slice(5)}`,
        token: `sim-${newAccountId()}`
      })
      await activateAccount(trx, s.traderId, accountId)
    },
    shows: (_, row, s) => assert.is(row?.account_id, `VRTC9${s.accountId.slice(5)}`)
  },
  {
    name: 'the account has a new token, which the broker does not know',
    change: (trx, s) => exchange(trx, s, { accountId: s.accountId, token: `no-such-token-${randomUUID()}` }),
    endsWithFirst: true,
    shows(placed, row) {
      assert.equal([placed.status, placed.body.error], [404, 'BROKER_DISCONNECTED'])
      if (row) assert.equal([row.phase, row.sent_at], ['failed', null])
    }
  },
  // Halts.
  halt('all'),
  halt('partner', ({ partnerId }) => partnerId),
  halt('application', () => appIds.v3),
  halt('asset', () => 'R_100')
]

/** Judges the orders placed after a change, of which those before it were `known`. */
async function judge(
  { refused, shows, endsWithFirst }: Fact,
  subject: FactSubject,
  { placed, known }: { placed: FactResponse[]; known: number }
) {
  const stored = await ordersOf(subject, known)
  for (const [index, each] of placed.entries()) {
    if (refused) assert.equal([each.status, each.body.error], refused)
    else if (!shows) assert.is(each.status, 200, JSON.stringify(each.body))
    shows?.(each, stored[index], subject)
  }
  if (endsWithFirst && stored.length === 1) return
  assert.is(stored.length, refused ? 0 : placed.length, 'what was stored')
}

async function withFact(fact: Fact, run: (subject: FactSubject) => Promise<void>): Promise<void> {
  const subject = await makeSubject(fact.test ? { test: true } : {})
  try {
    await run(subject)
  } finally {
    await fact.undo?.(db)
  }
}

const next = suite('the next order of two processes that remember the key')

for (const fact of facts)
  next(`goes by it when ${fact.name}`, () =>
    withFact(fact, async subject => {
      for (const address of [one, other]) await placeWell(address, subject)
      await db.transaction(trx => fact.change(trx, subject))
      const placed = await Promise.all([place(one, subject), place(other, subject)])
      await judge(fact, subject, { placed, known: 2 })
    })
  )

const reading = suite('the next GET /v1/me of a process that remembers the key')

const readMe = (address: string, { key }: FactSubject): Promise<FactResponse> =>
  call(address, getMe, { headers: { authorization: `Bearer ${key}` } })

for (const fact of facts.filter(({ me }) => me))
  reading(`goes by it when ${fact.name}`, () =>
    withFact(fact, async subject => {
      assert.is((await readMe(one, subject)).body.partnerId, subject.partnerId)
      await db.transaction(trx => fact.change(trx, subject))
      const read = await readMe(one, subject)
      if (fact.me === 'refused') assert.equal([read.status, read.body.error], fact.refused)
      else fact.me?.(read, subject)
    })
  )

const meanwhile = suite('an order that is about to be stored')

/** Waits until the statements of the api that store these orders wait for a lock. Throws where one ends before. */
async function blocked(placing: Promise<FactResponse>[]): Promise<void> {
  const ended: string[] = []
  for (const each of placing)
    each.then(
      ({ status, body }) => ended.push(`${status} ${JSON.stringify(body)}`),
      (error: unknown) => ended.push(String(error))
    )
  const isWaiting = `wait_event_type = 'Lock' and query like 'with callers as materialized%found as materialized%'`
  const waiting = until(`${placing.length} orders that wait`, async () => {
    const [found] = await rows<{ count: number }>(
      db,
      `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'service-api' and ${isWaiting}`
    )
    if (ended.length > 0) throw new Error(`ended before it waited: ${ended.join(', ')}`)
    return found?.count === placing.length
  })
  await waiting.catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await stateOfOrders()}`, { cause: error })
  })
}

/** For a wait that was in vain: what each connection does, the locks of the orders, the newest orders, and what the processes wrote last. */
async function stateOfOrders(): Promise<string> {
  const found = await Promise.all([
    rows(
      db,
      `select pid, application_name as of, state, wait_event, pg_blocking_pids(pid) as blocked_by,
              extract(epoch from clock_timestamp() - query_start)::int as seconds, left(query, 80) as query
         from pg_stat_activity where datname = current_database() order by query_start`
    ),
    rows(db, `select pid, mode, granted from pg_locks where relation = 'orders'::regclass`),
    rows(db, 'select id, phase, created_at, error_code from orders order by created_at desc limit 4')
  ])
  const written = processes.flatMap(({ child, lines }) => lines.slice(-5).map(line => `${child.pid} ${line}`))
  return [...found.flat().map(row => JSON.stringify(row)), ...written].join('\n')
}

for (const fact of facts)
  meanwhile(`goes by it when ${fact.name}`, () =>
    withFact(fact, async subject => {
      // One process remembers the key; the other one has read it by the time its order waits.
      await placeWell(one, subject)
      const trx = await db.transaction()
      await trx.raw('lock table orders in share row exclusive mode')
      await fact.change(trx, subject)
      const placing = [place(one, subject), place(other, subject)]
      await blocked(placing).finally(() => trx.commit())
      await judge(fact, subject, { placed: await Promise.all(placing), known: 1 })
    })
  )

meanwhile('is not stored while its trader is being erased, and no other order waits for that', async () => {
  const [subject, other] = [await makeSubject(), await makeSubject()]
  await placeWell(one, subject)
  const trx = await db.transaction()
  try {
    // Held for as long as orders take on a busy machine.
    await trx.raw('set local idle_in_transaction_session_timeout = 0')
    await eraseTrader(trx, vault, subject.traderId)
    const refused = [place(one, subject), place(one, subject), place(one, subject)]
    await placeWell(one, other)
    for (const { body, headers } of await Promise.all(refused)) {
      assert.equal([body.error, headers.get('retry-after')], ['UNAVAILABLE', '1'])
      // One that waits ends with another message, after the limit of waits for locks.
      assert.match(body.message, 'changed while the request was handled')
    }
    const exchanged = await call(one, exchangeTokens, {
      body: {
        traderExternalId: subject.traderExternalId,
        accounts: [{ accountId: subject.accountId, token: `sim-${randomUUID()}`, accountMode: 'DEMO', currency: 'USD' }]
      },
      headers: { authorization: `Bearer ${subject.key}` }
    })
    assert.is(exchanged.body.error, 'UNAVAILABLE')
    for (const { body } of [...(await Promise.all(refused)), exchanged])
      assert.match(await logged(body.requestId), /"level":30,.*"error":"UNAVAILABLE"/)
    await trx.commit()
  } finally {
    if (!trx.isCompleted()) await trx.rollback()
  }
  const { body } = await place(one, subject)
  assert.is(body.error, 'TRADER_NOT_FOUND')
  assert.is((await ordersOf(subject)).length, 1)
})

const refusing = suite('a refusal')

refusing('is of the key as it is now, whatever else is wrong with the request', async () => {
  const subject = await makeSubject()
  await placeWell(one, subject)
  await revokeKey(db, subject.keyId)
  const { headers, body } = await place(one, subject, { stake: 'much' })
  assert.is(body.error, 'KEY_REVOKED')
  assert.is(headers.get('ratelimit'), null)
})

refusing('does not come from memory: what was granted since is granted', async () => {
  const subject = await makeSubject()
  await updateKey({ scopes: ['trading:read'] })(db, subject)
  assert.is((await place(one, subject)).body.error, 'INSUFFICIENT_SCOPE')
  await updateKey({ scopes: defaultScopes })(db, subject)
  await placeWell(one, subject)
  await setLimits(db, subject.realId, { perKeyPerMinute: 1 })
  await placeWell(one, subject)
  assert.is((await place(one, subject)).body.error, 'RATE_LIMITED')
  await setLimits(db, subject.realId, { perKeyPerMinute: null })
  await placeWell(one, subject)
})

refusing('is the one of a repeat as before: of other terms, and none where the account is refused since', async () => {
  const subject = await makeSubject()
  const clientOrderId = randomUUID()
  const { orderId } = (await place(one, subject, { clientOrderId })).body
  assert.is((await place(one, subject, { clientOrderId, stake: 3 })).body.error, 'CLIENT_ORDER_ID_REUSED')
  await rejected('TOKEN_REFUSED')(db, subject)
  const replay = await place(one, subject, { clientOrderId })
  assert.equal([replay.body.orderId, replay.headers.get('idempotent-replayed')], [orderId, 'true'])
})

refusing('is what a key with the lookup of a remembered one gets, but another secret', async () => {
  const subject = await makeSubject()
  await placeWell(one, subject)
  const { lookup } = parseApiKey(subject.key) as { lookup: string }
  const random = '0'.repeat(40)
  const checksum = crc32(`${lookup}_${random}`).toString(16).padStart(8, '0')
  const key = `service_live_${lookup}_${random}${checksum}`
  assert.ok(parseApiKey(key), 'it is well formed')
  assert.is((await place(one, { ...subject, key })).body.error, 'UNAUTHENTICATED')
  await placeWell(one, subject)
})

const counting = suite('a request that is decided twice')

counting('counts once', async () => {
  const subject = await makeSubject()
  await setLimits(db, subject.realId, { perKeyPerMinute: 50, perTraderPerMinute: 40 })
  await placeWell(one, subject)
  await updatePartner({ name: 'Another name' })(db, subject)
  const { status, headers } = await place(one, subject)
  assert.is(status, 200)
  assert.match(headers.get('ratelimit') ?? '', /^"key";r=48;t=\d+, "trader";r=38;t=\d+$/)
})

const knowing = suite('what is remembered')

knowing('saves an order every read before the statement that stores it', async () => {
  const subject = await makeSubject()
  const { batched } = harness.services
  await placeWell(harness.address, subject)
  const read: string[] = []
  const { caller, trading } = batched
  batched.caller = lookup => {
    read.push('key')
    return caller(lookup)
  }
  batched.trading = trader => {
    read.push('trader')
    return trading(trader)
  }
  try {
    await placeWell(harness.address, subject)
  } finally {
    Object.assign(batched, { caller, trading })
  }
  assert.equal(read, [])
})

knowing('is bounded in number and age, and for who has the secret', () => {
  const keyOf = (lookup: string, secret: string) => ({ lookup, hash: hashSecret(pepper, secret) })
  const caller = { keyId: 'key_a', hash: Buffer.from('a hash as the driver returns it') } as KeyCaller
  const few = openKnownKeys({ maxKeys: 2 })
  for (const lookup of ['a', 'b', 'c']) few.remember(keyOf(lookup, 'secret'), caller)
  assert.equal(
    ['a', 'b', 'c'].map(lookup => few.recall(keyOf(lookup, 'secret'))),
    [undefined, caller, caller]
  )
  assert.is(
    few.recall(keyOf('c', 'secret'))?.hash.buffer.byteLength,
    caller.hash.length,
    'nothing else is kept with it'
  )
  assert.is(few.recall(keyOf('c', 'another')), undefined)
  few.forget(keyOf('c', 'secret'))
  assert.is(few.recall(keyOf('c', 'secret')), undefined)
  const old = openKnownKeys({ maxAgeMs: 0 })
  old.remember(keyOf('a', 'secret'), caller)
  assert.is(old.recall(keyOf('a', 'secret')), undefined)
})

knowing.after(closeAll)
for (const tests of [next, reading, meanwhile, refusing, counting, knowing]) tests.run()

// A partner beside a hostile one: its orders and GET /v1/me alone and beside each attack (attacks.ts), in turns, so that what else
// the machine does falls on both. The hostile partner sends from a process of its own at the lowest priority, as what a partner's
// own machine spends must not count. Two controls send the same load to a bare server (bare.ts): what they cost the other partner
// is the price of sharing two cores, whatever the service does.
// Each p99 is of all turns together, and its ratio has an interval from drawing whole turns again, as requests of one turn are
// not independent.
//   BENCH_ROUNDS     turns of each attack (6)
//   BENCH_FOLLOWERS  of the leader (2000)
//   BENCH_CASES      only attacks whose name contains one of these, separated by commas
//   BENCH_MINUTES    no turn begins that would not end within so many (20)
import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { insertKey } from '../../db/partners/keys.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { sealToken } from '../../db/traders/accounts.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import {
  type Answered,
  type Attack,
  attacks,
  CALLS_A_SECOND,
  FOLLOWERS,
  post,
  SHARING,
  type Stack,
  TAKEN
} from './attacks.ts'
import { exchange } from './client.ts'
import {
  type Found,
  ORDERS_A_SECOND,
  printAll,
  printOne,
  READS_A_SECOND,
  type Turn,
  takenCores
} from './hostile-report.ts'
import { memoryOf } from './report.ts'
import { each, type Stage, setStage } from './stage.ts'

const TICK_MS = 100
const TRADERS = 40
const HOSTILE_TRADERS = 300
const HOSTILE_KEYS = 10
// More than a page has.
const HOSTILE_ORDERS = 400
const SLOW_MS = 8000
const HOSTILE_APP = '2'
const WARM_MS = 2000
const REST_MS = 2000
const WARM_ROUNDS = 10
const FIRST_SECONDS = 2
const SETTLE_MS = 45_000
const LOWEST_PRIORITY = 19

/**
 * Measures every attack `rounds` times for `seconds`, with as long alone before and after each. Prints each attack's figures as
 * soon as they are known and all of them as a table at the end. Ends within BENCH_MINUTES and some seconds.
 */
export async function hostile(seconds: number): Promise<void> {
  const rounds = setting('BENCH_ROUNDS', 6)
  const deadline = performance.now() + setting('BENCH_MINUTES', 20) * 60_000
  const wanted = (process.env.BENCH_CASES ?? '').split(',').filter(Boolean)
  const chosen = attacks.filter(({ name }) => wanted.length === 0 || wanted.some(part => name.includes(part)))
  if (chosen.length === 0) throw new Error(`BENCH_CASES: no attack of ${attacks.map(({ name }) => name).join('; ')}`)
  console.log(
    `hostile: ${chosen.length} attacks, ${rounds} turns of ${seconds} s alone and ${seconds} s beside; setting the stage`
  )
  const stage = await setStage(['--tick-ms', String(TICK_MS)])
  const metricsPort = await freePort()
  const { address, child: api } = await stage.startApi({
    RATE_LIMIT_SCALE: '12000',
    RATE_LIMIT_TRADER: '1000000',
    METRICS_PORT: String(metricsPort)
  })
  await stage.startWorker()
  const execArgv = ['--require', './.node-version.cjs']
  const bare = fork('test/bench/bare.ts', { execArgv })
  const [bareAddress] = (await once(bare, 'message')) as [string]
  const ground = await makeGround(stage, { address, bare: bareAddress })
  const mine = await stage.makeTraders(address, TRADERS)
  ground.victims.push(...(await stage.db('broker_accounts').where({ partner_id: stage.partnerId }).pluck('account_id')))
  const attacker = fork('test/bench/attacks.ts', { execArgv })
  setPriority(attacker.pid as number, LOWEST_PRIORITY)
  attacker.send(ground)

  const refused: string[] = []
  const timed = async (method: string, path: string, body?: object): Promise<number> => {
    const startedAt = performance.now()
    const headers = { authorization: `Bearer ${stage.key}`, 'content-type': 'application/json' }
    const sent = exchange(address, { method, path, headers, ...(body ? { body: JSON.stringify(body) } : {}) })
    const answer = await sent.catch((error: Error) => ({ status: 0, text: error.message }))
    if (answer.status !== 200) refused.push(`${path} ${answer.status} ${answer.text.slice(0, 120)}`)
    return performance.now() - startedAt
  }
  /** Has the hostile partner send, and resolves with the responses; `us` are microseconds of CPU of a call of SHARING. */
  const send = async (name: string, lengthMs: number, us = 0): Promise<Answered> => {
    const ended = once(attacker, 'message') as Promise<[Answered]>
    attacker.send({ name, seconds: lengthMs / 1000, us })
    return (await ended)[0]
  }
  const order = (index: number) => timed('POST', '/v1/orders/binary', tickOrder(mine[index % TRADERS] as string))
  const measure = async (length: number): Promise<Turn> => {
    const before = await stage.cpuSeconds()
    await loopLag(metricsPort)
    const [orders, reads] = await Promise.all([
      steady(ORDERS_A_SECOND, length, order),
      steady(READS_A_SECOND, length, () => timed('GET', '/v1/me'))
    ])
    const loopMs = await loopLag(metricsPort)
    const cpu = Object.entries(await stage.cpuSeconds()).map(([who, used]) => [who, used - (before[who] ?? 0)] as const)
    return { orders, reads, loopMs, cpu: Object.fromEntries(cpu), seconds: length }
  }
  for (let round = 0; round < WARM_ROUNDS; round++) await each(mine, 20, (_, index) => order(index))

  /** One turn of an attack, added to its figures. */
  const turn = async ({ name, slow }: Attack, so: Found, length: number): Promise<void> => {
    if (slow) await fault(stage, { effect: 'slow', call: slow, appId: Number(HOSTILE_APP), delayMs: SLOW_MS })
    const watch = watchMemory(api)
    // What a slow broker holds up comes when its time is over.
    const warmMs = slow ? SLOW_MS : WARM_MS
    const ended = send(name, warmMs + length * 1000)
    await sleep(warmMs)
    const turnedAway = refused.length
    so.beside.push(await measure(length))
    so.refused += refused.length - turnedAway
    // What the attack left has ended before anything else is measured.
    if (slow) await fault(stage, undefined)
    for (const [status, count] of Object.entries(await ended))
      so.answered[Number(status)] = (so.answered[Number(status)] ?? 0) + count
    so.memoryMb = Math.max(so.memoryMb, await watch())
    await settled(stage)
    // Connections that end, and memory that is given back, fall on no turn alone.
    await sleep(REST_MS)
  }

  /** A turn beside a bare server that takes as much CPU as the latest turn of the attack took of the service. */
  const shareTurn = async (so: Found, length: number): Promise<void> => {
    const ended = send(SHARING.name, WARM_MS + length * 1000, (1e6 * takenCores(so)) / CALLS_A_SECOND)
    await sleep(WARM_MS)
    so.sharing.push(await measure(length))
    await ended
  }

  const found = new Map<Attack, Found>()
  let longestMs = 0
  for (const attack of chosen) {
    const so: Found = { alone: [], beside: [], sharing: [], refused: 0, memoryMb: 0, answered: {} }
    // What the attack needs once, compiled code and connections among it, falls on no turn.
    await turn(attack, { ...so, alone: [], beside: [] }, FIRST_SECONDS)
    so.alone.push(await measure(seconds))
    for (let round = 0; round < rounds; round++) {
      const startedAt = performance.now()
      if (startedAt + longestMs > deadline) break
      await turn(attack, so, seconds)
      so.alone.push(await measure(seconds))
      if (!attack.control) await shareTurn(so, seconds)
      longestMs = Math.max(longestMs, performance.now() - startedAt)
    }
    if (so.beside.length === 0) {
      console.log(`${attack.name}: not measured, BENCH_MINUTES are over`)
      continue
    }
    found.set(attack, so)
    printOne(attack, so)
  }
  attacker.disconnect()
  bare.disconnect()
  printAll(found, { seconds, rounds, refused, left: chosen.length - found.size })
  await stage.close()
}

function setting(name: string, usual: number): number {
  const value = Number(process.env[name] || usual)
  if (!(value > 0)) throw new Error(`${name} must be a number above zero`)
  return value
}

/** A port that is free now. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

/** How late the event loop of the api was at the 99th percentile since the last call, in milliseconds. */
async function loopLag(port: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return Number(/^nodejs_eventloop_lag_p99_seconds ([\d.e+-]+)/m.exec(text)?.[1] ?? Number.NaN) * 1000
}

/** Watches a process's memory until the returned function is called, which resolves with the most in MB. */
function watchMemory({ pid }: ChildProcess): () => Promise<number> {
  let [over, most] = [false, 0]
  const watching = (async () => {
    while (!over) {
      most = Math.max(most, await memoryOf(pid))
      await sleep(100)
    }
  })()
  return async () => {
    over = true
    await watching
    return most
  }
}

/** Waits until no order is on its way any more, at most 45 s: orders that are not placed in 10 s have failed by then. */
async function settled({ db }: Stage): Promise<void> {
  const deadline = performance.now() + SETTLE_MS
  for (;;) {
    const left = await db('orders').whereIn('phase', ['unproven', 'queued', 'sending', 'open']).first('id')
    if (!left) return
    if (performance.now() > deadline) return console.log('hostile: orders are still on their way after 45 s')
    await sleep(200)
  }
}

async function makeGround(stage: Stage, { address, bare }: Pick<Stack, 'address' | 'bare'>): Promise<Stack> {
  const { partnerId } = await insertPartner(stage.db, {
    name: 'Hostile',
    plan: 'SCALE',
    brokerAppId: HOSTILE_APP,
    brokerDialect: 'v3'
  })
  const pepper = await openPepper(stage.db, openVault(stage.env.TOKEN_KEYS as string))
  const keys: string[] = []
  for (let index = 0; index < HOSTILE_KEYS; index++)
    keys.push((await insertKey(stage.db, pepper, { partnerId, label: null, scopes: allScopes })).key)
  const traders = Array.from({ length: HOSTILE_TRADERS }, () => `hostile-${randomUUID()}`)
  const ground: Stack = { address, bare, key: keys[0] as string, keys, traders, victims: [] }
  const followers = Array.from({ length: FOLLOWERS }, (_, index) => `follower-${index}`)
  await insertTraders(stage, partnerId, ['leader', ...traders, ...followers])
  const reader = await stage.db('traders').where({ partner_id: partnerId, external_id: 'leader' }).first('id')
  await insertOrderRows(
    stage.db,
    { traderId: reader.id, traderExternalId: 'leader', accountId: '' },
    { count: HOSTILE_ORDERS }
  )
  await post(ground, '/v1/traders/signup', TAKEN)
  await stage.db.raw(
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(t.id, 5), t.partner_id, t.id, t.external_id, l.id, 50, 90, 'ACTIVE', 1000000
       from traders t join traders l on l.external_id = 'leader' and l.partner_id = t.partner_id
      where t.external_id like 'follower-%'`
  )
  return ground
}

/** Traders as if each had been exchanged and had traded before: what a first authorisation costs is measured by the last attack alone. */
async function insertTraders({ db, env }: Stage, partnerId: string, externalIds: string[]): Promise<void> {
  const vault = openVault(env.TOKEN_KEYS as string)
  const accounts = externalIds.map((_, index) => {
    const id = newId('account')
    const accountId = `VRTC${900_000_000 + index}`
    const { keyId, sealed } = sealToken(vault, id, `sim-${accountId}`)
    const token = { token_key_id: keyId, token_sealed: sealed, token_version: 1, proven_version: 1 }
    return { id, account_id: accountId, account_mode: 'DEMO', currency: 'USD', trader_id: newId('trader'), ...token }
  })
  const traders = accounts.map(({ id, trader_id }, index) => ({
    id: trader_id,
    partner_id: partnerId,
    external_id: externalIds[index],
    active_account_id: id,
    connected_at: new Date()
  }))
  await db.transaction(async trx => {
    await trx.batchInsert('traders', traders, 1000)
    await trx.batchInsert(
      'broker_accounts',
      accounts.map(account => ({ ...account, partner_id: partnerId })),
      1000
    )
  })
  // The follows are made of them at once.
  await db.raw('analyze traders, broker_accounts')
}

/** Adds a fault to the simulated broker; undefined takes all away. */
async function fault({ broker }: Stage, rule: object | undefined): Promise<void> {
  const init = rule
    ? { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ rules: [rule] }) }
    : { method: 'DELETE' }
  const { status } = await fetch(`${broker.control}/faults`, init)
  if (status !== 200) throw new Error(`the simulated broker answered ${status} to a fault`)
}

// Workers that join, leave, are restarted, die and freeze under uneven load, and what that costs: connections an account,
// REST calls, how soon accounts are taken over, how long an order waits, how evenly accounts are shared.
import { setTimeout as sleep } from 'node:timers/promises'
import { rows } from '../../db/postgres/connection.ts'
import { OF_ADDRESS } from '../../worker/simulator/next/rest.ts'
import { cpuOf, cpuOfTree } from '../bench/stage.ts'
import type { ChaosMember } from '../chaos/members.ts'
import { audit, booksOf, readOrders, readReported } from '../support/auditor.ts'
import { until } from '../support/until.ts'
import { type Watch, watchBroker } from './broker.ts'
import { place, type Sent, startLoad, type WorkersLoad } from './load.ts'
import { openScene, type Scene, type SceneOptions } from './scene.ts'

/** What is done to the workers, in this order. */
export const STAGES = ['join', 'restart', 'killed', 'frozen'] as const
export type StageName = (typeof STAGES)[number]

export interface WorkersOptions extends SceneOptions {
  /** Orders a second. */
  rate: number
  /** How long the load goes on in peace before and after each step, ms. */
  peaceMs: number
  /** Accounts that are tried without pause while their worker is gone. */
  probes: number
  /** What is done to the workers; all of it unless named. */
  stages?: readonly StageName[]
  /** The id of the database server's first process, where its CPU is to be reported. */
  postmaster?: number
  report(line: string): void
}

/** A figure beside its goal. */
export interface WorkersFigure {
  what: string
  value: number
  goal: number
  unit: string
}

export interface WorkersOutcome {
  figures: WorkersFigure[]
  wrong: string[]
}

// What a take-over may take beyond the lease: the sweep that finds the orders, and opening the account's connection.
const TAKE_OVER_MS = 2500
const EVEN_SECONDS = 60
// First orders under way at once.
const FIRST_ORDERS = 24
const SESSIONS = 1.05
const RESTART_SECONDS = 2
const READY_MS = 120_000
const ENDING_MS = 15_000
// Of the slowest orders, so many are reported with the times of their steps.
const SLOWEST = 5

interface Run {
  scene: Scene
  options: WorkersOptions
  watch: Watch
  load: WorkersLoad
  wrong: string[]
  figure(what: string, value: number, goal: number, unit: '' | ' s'): void
}

/** Runs it; the caller closes what the harness opened. */
export async function workersAtWork(options: WorkersOptions): Promise<WorkersOutcome> {
  const { report } = options
  const scene = await openScene(options)
  const { workers, accounts, simulator } = scene
  const watch = watchBroker(simulator)
  const figures: WorkersFigure[] = []
  const wrong: string[] = []
  const figure = (what: string, value: number, goal: number, unit: '' | ' s') => {
    figures.push({ what, value, goal, unit })
    const missed = value <= goal ? '' : ', MISSED'
    report(`${what}: ${value.toFixed(unit === '' ? 3 : 1)}${unit} (goal ${goal}${unit}${missed})`)
  }
  const late = workers.slice(-Math.max(1, Math.floor(workers.length / 5)))
  const early = workers.filter(each => !late.includes(each))
  await Promise.all(early.map(each => each.start()))
  report(`${accounts.length} accounts, ${early.length} of ${workers.length} workers`)
  // Every account once, so that all have a worker, as fast as the broker lets connections be opened.
  const warm = await inLanes(accounts, FIRST_ORDERS, each => place(each))
  report(`${warm.filter(({ ms }) => ms !== null).length} accounts placed a first order`)

  const run: Run = { scene, options, watch, load: startLoad(accounts, options), wrong, figure }
  await inPeace(run, early)
  const { stages = STAGES } = options
  // Without the stage of their own they start before it is measured.
  if (stages.includes('join')) await join(run, late)
  else await startLate(run, late)
  if (stages.includes('restart')) await restart(run, workers.slice(0, Math.floor(workers.length / 2)))
  if (stages.includes('killed')) await die(run, workers.slice(0, Math.max(1, Math.floor(workers.length / 5))))
  if (stages.includes('frozen')) await freeze(run, workers.slice(-1))
  await run.load.stop()

  const rest = watch.rest()
  watch.stop()
  figure('REST calls in the busiest minute', rest.most, options.restCalls, '')
  if (rest.refused > 0) wrong.push(`the broker refused ${rest.refused} REST calls as too many`)
  if (simulator.next.refused.sockets > 0) wrong.push(`the broker refused ${simulator.next.refused.sockets} connections`)
  report(`REST calls: ${rest.all} in all; the published budget is ${OF_ADDRESS} a minute`)
  wrong.push(...(await examine(scene, run.load.sent, report)))
  return { figures, wrong }
}

async function inPeace({ scene, options, watch, figure }: Run, members: ChaosMember[]): Promise<void> {
  await even(scene, members)
  watch.since()
  const cost = await costSince({ scene, options, watch })
  await sleep(options.peaceMs)
  options.report(`${await cost()} in ${options.peaceMs / 1000} s of peace`)
  figure('connections an account, mean in peace', watch.since().mean, SESSIONS, '')
}

async function startLate({ scene }: Run, members: ChaosMember[]): Promise<void> {
  await Promise.all(members.map(each => each.start()))
  await even(scene, scene.workers)
}

async function join({ scene, options, figure }: Run, members: ChaosMember[]): Promise<void> {
  const at = performance.now()
  await Promise.all(members.map(each => each.start()))
  await even(scene, scene.workers)
  figure(`from the start of ${members.length} more until the accounts are shared evenly`, since(at), EVEN_SECONDS, ' s')
  await sleep(options.peaceMs)
}

/** SIGTERM, and started again, all at once. */
async function restart({ scene, options, watch, load, wrong, figure }: Run, members: ChaosMember[]): Promise<void> {
  const [at, began] = [performance.now(), new Date()]
  const cost = await costSince({ scene, options, watch })
  await Promise.all(
    members.map(async each => {
      await each.end('SIGTERM')
      options.report(`  ${seconds(since(at))}: ${each.name} has ended`)
      await each.start()
      options.report(`  ${seconds(since(at))}: ${each.name} has started again`)
    })
  )
  options.report(`${members.length} restarted in ${seconds(since(at))}`)
  await sleep(options.peaceMs)
  options.report(`${await cost()} until ${options.peaceMs / 1000} s later`)
  const sent = load.sent.filter(each => each.at >= at)
  for (const { said } of sent.filter(({ ms }) => ms === null)) wrong.push(`an order beside the restart: ${said}`)
  // Orders of ticks are acknowledged when they are settled.
  const times = sent.flatMap(({ ms, said }) => (ms !== null && said === 'OPEN' ? [ms / 1000] : []))
  times.sort((one, other) => one - other)
  const what = `from an order to its purchase, from the restart of ${members.length} on, of ${times.length} orders`
  figure(`${what}, p50`, times[Math.floor(times.length / 2)] ?? 0, RESTART_SECONDS, ' s')
  figure(`${what}, slowest`, times.at(-1) ?? 0, RESTART_SECONDS, ' s')
  for (const line of await slowest(scene, sent, began)) options.report(`  ${line}`)
  await even(scene, scene.workers)
  figure('connections an account, mean since the join', watch.since().mean, SESSIONS, '')
}

/** Returns what reports the CPU that was used since now, and the REST calls. */
async function costSince({ scene, options, watch }: Pick<Run, 'scene' | 'options' | 'watch'>) {
  const count = async () => {
    const { own } = await cpuOf(process.pid)
    return {
      workers: (await cpuOfTree(process.pid)) - own,
      'the bench, broker and api': own,
      PostgreSQL: options.postmaster === undefined ? 0 : await cpuOfTree(options.postmaster),
      calls: watch.rest().all,
      contracts: scene.simulator.engine.contracts.size
    }
  }
  const { calls, contracts, ...before } = await count()
  return async () => {
    const now = await count()
    const used = (['workers', 'PostgreSQL', 'the bench, broker and api'] as const).map(
      who => `${who} ${(now[who] - before[who]).toFixed(1)} s`
    )
    return `CPU of ${used.join(', ')}; ${now.calls - calls} REST calls, ${now.contracts - contracts} contracts`
  }
}

interface Way {
  ms: number
  requested: number
  stored: number
  sending: number | null
  open: number | null
  leased: number | null
  attempt: number
  sender: string | null
}

/** Where the slowest orders were, in times since `began`. */
async function slowest({ db, workers }: Scene, sent: Sent[], began: Date): Promise<string[]> {
  const slow = sent
    .filter(({ ms, said }) => ms !== null && said === 'OPEN')
    .sort((one, other) => Number(other.ms) - Number(one.ms))
    .slice(0, SLOWEST)
  const [ids, times] = [slow.map(each => each.clientOrderId), slow.map(each => each.ms)]
  const beganAt = performance.now() - (Date.now() - began.getTime())
  const requested = slow.map(each => (each.at - beganAt) / 1000)
  const found = await rows<Way>(
    db,
    `select s.ms, s.requested, o.attempt, o.sender,
            extract(epoch from o.created_at - :began::timestamptz)::float8 as stored,
            extract(epoch from o.sent_at - :began::timestamptz)::float8 as sending,
            extract(epoch from o.opened_at - :began::timestamptz)::float8 as open,
            extract(epoch from l.leased_at - :began::timestamptz)::float8 as leased
       from unnest(:ids::text[], :times::float8[], :requested::float8[]) s (id, ms, requested) join orders o on o.client_order_id = s.id
       left join account_leases l on l.account_id = o.account_id order by s.ms desc`,
    { began, ids, times, requested }
  )
  return found.map(({ ms, requested, stored, sending, open, leased, attempt, sender }) => {
    const worker = workers.find(({ pid }) => sender?.split(':').includes(String(pid)))?.name ?? 'a worker that is gone'
    return (
      `${seconds(ms / 1000)}: requested at ${seconds(requested)}, stored at ${seconds(stored)}, sent at ${seconds(sending)} by ${worker} (attempt ${attempt}), ` +
      `open at ${seconds(open)}; the account is with its worker since ${seconds(leased)}`
    )
  })
}

async function die(run: Run, members: ChaosMember[]): Promise<void> {
  await takenOver(run, members, 'killed', () => Promise.all(members.map(each => each.end('SIGKILL'))))
  await Promise.all(members.map(each => each.start()))
  await even(run.scene, run.scene.workers)
}

async function freeze(run: Run, members: ChaosMember[]): Promise<void> {
  const { scene, options, watch, figure } = run
  await takenOver(run, members, 'frozen', async () => {
    for (const each of members) each.freeze()
  })
  for (const each of members) each.thaw()
  const at = performance.now()
  await until('one connection an account', () => watch.now().perAccount <= SESSIONS, EVEN_SECONDS * 1000)
  figure('from its waking to one connection an account', since(at), 2 * (options.leaseMs / 1000), ' s')
  await sleep(options.peaceMs)
  await even(scene, scene.workers)
}

/** Takes workers away by `act`, and measures until others serve their accounts and follow their contracts. */
async function takenOver(
  { scene, options: { probes, leaseMs, report }, figure }: Run,
  members: ChaosMember[],
  how: string,
  act: () => Promise<unknown>
): Promise<void> {
  const { db } = scene
  const names = await scene.namesOf(members)
  const served = await rows<{ account_id: string }>(
    db,
    'select account_id from account_leases where worker = any(:names)',
    { names }
  )
  const theirs = new Set(served.map(({ account_id }) => account_id))
  const own = scene.accounts.filter(({ trader }) => theirs.has(trader.accountId))
  const at = performance.now()
  await act()
  // An order that was under way keeps its account until it is resolved, which takes as long as the broker may still get it.
  const locked = await rows<{ account_id: string }>(
    db,
    `select distinct account_id from orders where phase = 'sending' and sender = any(:names)`,
    { names }
  )
  const inDoubt = new Set(locked.map(({ account_id }) => account_id))
  const free = own.filter(({ trader }) => !inDoubt.has(trader.accountId))
  const every = Math.max(1, Math.floor(free.length / probes))
  const chosen = free.filter((_, index) => index % every === 0).slice(0, probes)
  report(`${inDoubt.size} of ${own.length} accounts had an order under way, which is resolved first; the others:`)
  const left = `select from orders where phase = 'open' and lease_holder = any(:names) limit 1`
  const followed = until(
    'the contracts to be followed by others',
    async () => (await rows(db, left, { names })).length === 0,
    leaseMs * 4
  ).then(() => since(at))
  const times = await inLanes(chosen, chosen.length, async each => {
    // An order whose time is over while nobody serves its account fails; a partner sends another.
    while ((await place(each)).ms === null) if (since(at) * 1000 > leaseMs * 4) break
    return since(at)
  })
  const goal = (leaseMs + TAKE_OVER_MS) / 1000
  figure(
    `${members.length} ${how}: until the last of ${times.length} accounts placed an order`,
    Math.max(0, ...times),
    goal,
    ' s'
  )
  figure(`${members.length} ${how}: until others follow all contracts`, await followed, goal, ' s')
}

/** Waits until no living worker has clearly more accounts than its share. */
async function even(scene: Scene, members: ChaosMember[]): Promise<void> {
  await until(
    'the accounts to be shared evenly',
    async () => {
      const names = await scene.namesOf(members.filter(({ up, frozen }) => up && !frozen))
      const found = await rows<{ accounts: number }>(
        scene.db,
        `select (select count(*)::int from account_leases l where l.worker = f.name) as accounts
           from lease_holders f where f.name = any(:names) and f.lease_until > clock_timestamp()`,
        { names }
      )
      const counts = found.map(({ accounts }) => accounts)
      const share = Math.ceil(counts.reduce((sum, each) => sum + each, 0) / Math.max(1, counts.length))
      return counts.length >= members.length && Math.max(...counts) <= share * 1.1 + 1
    },
    2 * EVEN_SECONDS * 1000
  )
}

/** What the broker's books hold against our rows, once nothing is on its way and what has ended is settled. */
async function examine({ db, simulator }: Scene, sent: Sent[], report: (line: string) => void): Promise<string[]> {
  const left = `select from orders where phase in ('unproven', 'queued', 'sending')
                   or (phase = 'open' and expiry_at < now() - interval '5 seconds') limit 1`
  await until('orders to end', async () => (await rows(db, left, {})).length === 0, READY_MS)
  const at = Date.now()
  const ledger = simulator.ledger()
  const audited = audit({
    contracts: booksOf(ledger),
    orders: await readOrders(db),
    accepted: sent.filter(({ ms }) => ms !== null).map(({ clientOrderId }) => clientOrderId),
    reported: await readReported(db),
    lateToleranceMs: 5000,
    openIsFine: true
  })
  const said = Object.entries(Object.groupBy(sent, each => each.said)).map(([each, list]) => `${list?.length} ${each}`)
  report(`${sent.length} orders: ${said.join(', ')}`)
  // What ended a moment ago is being settled.
  const ending = new Set(
    ledger.filter(({ soldAtMs }) => soldAtMs !== null && soldAtMs > at - ENDING_MS).map(each => String(each.contractId))
  )
  const findings = audited.findings.filter(({ kind, contractId }) => kind !== 'stuck' || !ending.has(contractId ?? ''))
  const count = (kind: string) => findings.filter(each => each.kind === kind).length
  report(
    `audit: ${audited.contracts} contracts, ${count('doubled')} doubled, ${count('lost')} lost, ${count('late')} late, ${count('money')} of wrong money, ${count('stuck')} stuck`
  )
  return findings.map(({ kind, what, orderId }) => `${kind}: ${what} (${orderId})`)
}

const since = (at: number) => (performance.now() - at) / 1000

const seconds = (value: number | null) => (value === null ? 'no time' : `${value.toFixed(1)} s`)

/** Runs `work` on all items, so many at once; returns the results in the order they came. */
async function inLanes<T, R>(items: T[], lanes: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const left = items.values()
  await Promise.all(
    Array.from({ length: Math.max(1, lanes) }, async () => {
      for (const item of left) results.push(await work(item))
    })
  )
  return results
}

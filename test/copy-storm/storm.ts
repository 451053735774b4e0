// A storm of copying: leaders trade, change limits at the broker, close early and switch accounts, followers switch accounts and lose tokens, workers
// are killed; when it is over, judge.ts compares the broker's books with what the follows promise.
import { randomUUID } from 'node:crypto'
import { followLeader } from '../../api/copy.ts'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens } from '../../api/traders/accounts.ts'
import { rows } from '../../db/postgres/connection.ts'
import { SimulatedRefusal } from '../../worker/simulator/engine/refusal.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { seeded } from '../money-storm/random.ts'
import { brokerEnv } from '../support/dialects.ts'
import { newAccountId, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'
import { type CopyVerdict, judge } from './judge.ts'

export interface StormOptions {
  seed: number
  followers: number
  leaders: number
  /** Orders that the leaders place. */
  orders: number
  workers: number
  kills: number
  print(line: string): void
}

const RECONCILE_AFTER_MS = 3000
// The broker's books and our rows are at rest within this time after the last action.
const QUIET_MS = 240_000

/** Runs the storm on a database and a simulated broker of its own, and judges it once everything has ended. */
export async function storm(options: StormOptions): Promise<CopyVerdict & { placed: number; kills: number }> {
  const { seed, print } = options
  const { below, pick } = seeded(seed)
  const random = () => below(2 ** 32) / 2 ** 32
  const integer = (from: number, to: number) => from + Math.floor(random() * (to - from + 1))
  const money = (from: number, to: number) => Math.round((from + random() * (to - from)) * 100) / 100

  const simulator = await startSimulator({ tickMs: 100, seed, limits: 'off' })
  onClose(() => simulator.close())
  const env = {
    ...brokerEnv(simulator),
    BROKER_ANSWER_TIMEOUT_MS: '2500',
    RECONCILE_AFTER_MS: String(RECONCILE_AFTER_MS),
    RECONCILE_CRASHED_MS: String(RECONCILE_AFTER_MS),
    LEASE_MS: '3000',
    SWEEP_MS: '300',
    SETTLE_WAIT_MS: '5000'
  }
  const harness = await openHarness({ env })
  const { db } = harness.services
  const partner = await harness.makePartner()
  const workers: TestProcess[] = await Promise.all(
    Array.from({ length: options.workers }, () => startWorker(harness.env))
  )

  const exchange = ({ traderExternalId }: TestTrader, accountId: string, accountMode: 'REAL' | 'DEMO') =>
    partner.call(exchangeTokens, {
      body: {
        traderExternalId,
        accounts: [{ accountId, token: `sim-${accountId}`, accountMode, currency: 'USD' }]
      }
    })
  /** Each trader has a demo account, which it began with, and a real one. */
  async function makeTrader(balance: number): Promise<TestTrader & { real: string }> {
    const accountId = newAccountId()
    const real = accountId.replace('VRTC', 'CR')
    for (const loginid of [accountId, real]) simulator.engine.accounts.create({ loginid, balance })
    const trader = await partner.makeTrader({ accountId })
    await exchange(trader, real, 'REAL')
    return { ...trader, real }
  }

  const leaders: (TestTrader & { real: string })[] = []
  for (let count = 0; count < options.leaders; count++) {
    const leader = await makeTrader(100_000)
    await insertOrderRows(db, leader, { count: 10 })
    leaders.push(leader)
  }
  const followers: (TestTrader & { real: string })[] = []
  while (followers.length < options.followers) {
    const many = Math.min(10, options.followers - followers.length)
    const fresh = await Promise.all(
      Array.from({ length: many }, async () => {
        const follower = await makeTrader(money(40, 400))
        const { status, body } = await partner.call(followLeader, {
          body: {
            traderExternalId: follower.traderExternalId,
            leaderId: pick(leaders).traderId,
            riskPct: integer(1, 200),
            maxDrawdownPct: integer(5, 90)
          }
        })
        if (status !== 200) throw new Error(`following returned ${status}: ${JSON.stringify(body)}`)
        return follower
      })
    )
    followers.push(...fresh)
  }
  print(`${followers.length} followers of ${leaders.length} leaders`)

  const open = new Map<string, 'BINARY' | 'MULTIPLIER'>()
  /** Stakes of the leaders' multipliers by contract. */
  const multipliers = new Map<number, number>()
  let placed = 0
  async function place(leader: TestTrader): Promise<void> {
    const { traderExternalId } = leader
    const common = { traderExternalId, clientOrderId: randomUUID(), asset: pick(['R_100', 'R_50', 'R_75']) }
    const kind = random() < 0.5 ? 'BINARY' : 'MULTIPLIER'
    const stake = kind === 'BINARY' ? money(0.35, 30) : money(1, 30)
    const limits = {
      ...(random() < 0.5 ? { stopLoss: money(Math.min(stake, 0.1 + stake / 4), stake) } : {}),
      ...(random() < 0.4 ? { takeProfit: money(1, 40) } : {})
    }
    const response =
      kind === 'BINARY'
        ? await partner.call(placeBinaryOrder, {
            body: {
              ...common,
              contractType: pick(['CALL', 'PUT']),
              stake,
              ...pick([
                { duration: 1, durationUnit: 't' },
                { duration: 5, durationUnit: 't' },
                { duration: 15, durationUnit: 's' },
                { duration: 30, durationUnit: 's' }
              ])
            }
          })
        : await partner.call(placeMultiplierOrder, {
            body: { ...common, direction: pick(['up', 'down']), stake, multiplier: 40, ...limits }
          })
    if (response.status === 200) placed++
    if (response.body.status === 'OPEN') open.set(response.body.orderId, kind)
    if (response.body.status === 'OPEN' && kind === 'MULTIPLIER')
      multipliers.set(Number(response.body.brokerOrderId), stake)
  }
  async function closeOne(): Promise<void> {
    const [orderId, kind] = pick([...open]) ?? []
    if (!orderId) return
    const response = await (kind === 'BINARY'
      ? partner.call(closeOrder, { params: { id: orderId } })
      : partner.call(closeMultiplierOrder, { params: { orderId } }))
    if (response.status === 200) open.delete(orderId)
  }
  /** A leader changes the limits of a multiplier with the broker's own software; the broker takes one change a second. */
  function changeLimits(): void {
    const [contractId, stake] = pick([...multipliers]) ?? []
    const contract = contractId === undefined ? undefined : simulator.engine.contracts.get(contractId)
    if (!contract || stake === undefined) return
    try {
      simulator.engine.update(contract.account, contract.id, {
        stopLoss: random() < 0.3 ? null : money(Math.min(stake, 0.1 + stake / 4), stake),
        takeProfit: random() < 0.5 ? null : money(1, 40)
      })
    } catch (error) {
      if (!(error instanceof SimulatedRefusal)) throw error
    }
  }
  /** As if a process died after it stored the job and before it knew, and another one stored it again. */
  async function fanOutAgain(): Promise<void> {
    const [orderId] = pick([...open]) ?? []
    if (orderId) await db.transaction(trx => harness.services.queue.enqueue(trx, 'copy.fanout', [{ orderId }]))
  }
  const switchAccount = (trader: TestTrader & { real: string }) =>
    partner.call(activateAccount, {
      body: {
        traderExternalId: trader.traderExternalId,
        accountId: random() < 0.35 ? trader.real : trader.accountId
      }
    })
  const revoked = new Set<TestTrader>()
  function loseToken(): void {
    const trader = pick(followers)
    revoked.add(trader)
    simulator.engine.accounts.revoke(trader.accountId)
  }
  async function giveToken(trader: TestTrader): Promise<void> {
    revoked.delete(trader)
    simulator.engine.accounts.restore(trader.accountId)
    await exchange(trader, trader.accountId, 'DEMO')
  }
  let kills = 0
  async function kill(): Promise<void> {
    const index = integer(0, workers.length - 1)
    const [killed] = workers.splice(index, 1, await startWorker(harness.env))
    killed?.kill('SIGKILL')
    await killed?.ended
    kills++
    print(`${placed} orders placed, ${kills} workers killed`)
  }

  const killEvery = Math.ceil(options.orders / (options.kills + 1))
  const killing: Promise<void>[] = []
  for (let turn = 1; turn <= options.orders; turn++) {
    await Promise.all([
      ...leaders.filter(() => random() < 2 / leaders.length).map(place),
      ...(random() < 0.6 ? [closeOne()] : []),
      ...(random() < 0.3 ? [fanOutAgain()] : []),
      ...(random() < 0.1 ? [switchAccount(pick(leaders))] : []),
      ...(random() < 0.3 ? [switchAccount(pick(followers))] : [])
    ])
    changeLimits()
    if (random() < 0.2) loseToken()
    if (revoked.size > options.followers / 10) await giveToken(pick([...revoked]))
    if (turn % killEvery === 0 && kills < options.kills) killing.push(kill())
  }
  await Promise.all(killing)

  for (const trader of [...revoked]) await giveToken(trader)
  await until(
    'the leaders to have closed everything',
    async () => {
      const left = await rows<{ id: string; kind: string }>(
        db,
        `select id, kind from orders where copied_from is null and phase in ('queued', 'sending', 'open') limit 20`
      )
      for (const { id, kind } of left) {
        if (kind === 'MULTIPLIER') await partner.call(closeMultiplierOrder, { params: { orderId: id } })
      }
      return left.length === 0
    },
    QUIET_MS
  )
  await until(
    'the end of every copy',
    async () => {
      const [left] = await rows<{ many: number }>(
        db,
        `select count(*)::int as many from orders where phase in ('queued', 'sending', 'open')`
      )
      const [jobs] = await rows<{ many: number }>(
        db,
        `select count(*)::int as many from pgboss.job where name in ('copy.fanout', 'copy.close', 'copy.limits') and state <= 'active'`
      )
      return left?.many === 0 && jobs?.many === 0
    },
    QUIET_MS
  )
  const verdict = await judge({ db, partner, ledger: simulator.ledger(), followers })
  return { ...verdict, placed, kills }
}

// What becomes of a buy once it is written.
import { Big } from 'big.js'
import type { BrokerError } from '../../worker/broker/broker-error.ts'
import type { BrokerAccount, Contract } from '../../worker/broker/port.ts'
import type { Deal } from './books.ts'
import type { BuyFate, Chance } from './chance.ts'
import { announce, type BrokerWorld, refusal, type SimulatedConnection } from './connection.ts'

interface Written {
  account: BrokerAccount
  contract: Contract
  /** When its sender stops waiting for a response and breaks the connection off. */
  givesUpAt: number
  /** Has `then` run when its sender's connection breaks. */
  onReset(then: () => void): void
  /** Whether its sender, as long as it lived, knew no more than that it was written. */
  waiting(): boolean
  /** The response comes after so long. */
  done(deal: Deal, ms: number): void
  refused(error: BrokerError, ms: number): void
}

/** What is special about a purchase; `lagMs` is how much later lists show it. */
type BuyChanges = Partial<Deal> & { lagMs?: number }

/** A written request on its way, in the hands of its fate. */
interface Way {
  /** The broker executes it after so long, unless it was lost on the way. */
  run(ms: number, then?: (deal: Deal) => void, changes?: BuyChanges): void
  /**
   * The network holds it until its sender breaks the connection off: its response is nobody's then, and the broker
   * executes what it has received so long after that, at most its own time-out.
   */
  runHeld(ms: number, changes?: BuyChanges): void
  /** Somebody else buys the same after so long. */
  others(ms: number, changes?: BuyChanges): void
  /**
   * The same by the trader, who requests nothing more of our clients; unless what was sent may still arrive by then. What
   * is bought in the time of another attempt could not be distinguished from it.
   */
  othersAfterwards(ms: number): void
  /** The broker refuses, at once. */
  refuse(code: BrokerError['code'], brokerCode: string, facts?: object): void
  /** For so long the broker shows no list of the account's. */
  refuseLists(ms: number): void
  /** The broker's own time-out: it may still run. */
  timeOut(): void
  /** The response comes, now or after so long. */
  notify(ms?: number): (deal: Deal) => void
  /** The connection breaks. */
  cut(): void
  /** The sender is frozen for so long, its request with it. */
  freeze(ms: number): void
  showsApps: boolean
  /** What was requested, in one respect changed. */
  otherTerms(): Contract
  int(low: number, high: number): number
  now: number
}

// The broker's own time-out; a request it gave up on may still be executed within it.
const BROKER_TIMEOUT_MS = 15_000
// So long a machine may go on sending what a process that died had written; RECONCILE_CRASHED_MS is a little more.
export const KERNEL_MS = 40_000
// A purchase shows in lists so much later.
const LIST_LAG_MS = 6000
// So much later at most: RECONCILE_AFTER_MS is 5 s longer than the broker's own time-out, and the second check of absence
// comes 3 s after the first.
const LONGEST_LAG_MS = 7500
// So much longer a connection that is not broken off may hold what was written.
const HELD_LONGER_MS = 45_000
// Calls are counted by the minute: what is refused because they are used up is refused for what is left of it.
const BUDGET_MS = 60_000

const fates: Record<BuyFate, (way: Way) => void> = {
  done: way => way.run(0, way.notify()),
  slow: way => way.run(way.int(500, BROKER_TIMEOUT_MS), way.notify()),
  'late response': way => way.run(0, way.notify(way.int(1000, 23_000))),
  'lost response': way => way.run(Math.max(0, way.int(-BROKER_TIMEOUT_MS, BROKER_TIMEOUT_MS))),
  // The trader's other software has used up the calls of the minute, so that looks fail one after the other.
  'lost response, lists refused'(way) {
    way.run(0)
    way.refuseLists(way.int(BUDGET_MS / 2, BUDGET_MS))
  },
  'lost request': () => {},
  'cut before': way => way.cut(),
  'cut after': way => way.run(0, () => way.cut()),
  'held, run after the reset': way => way.runHeld(way.int(1000, BROKER_TIMEOUT_MS)),
  'cut, run late'(way) {
    way.cut()
    way.runHeld(way.int(5000, BROKER_TIMEOUT_MS))
  },
  'time-out, not run': way => way.timeOut(),
  'time-out, run late'(way) {
    const lag = way.int(0, 1) ? { lagMs: LIST_LAG_MS } : {}
    way.run(way.int(10_000, BROKER_TIMEOUT_MS), () => {}, lag)
    way.timeOut()
  },
  // The first check that counts comes too early for it.
  'held, run and shown as late as can be': way => way.runHeld(BROKER_TIMEOUT_MS, { lagMs: LONGEST_LAG_MS }),
  'rate limit': way => way.refuse('BROKER_UPSTREAM', 'RateLimit'),
  'no funds': way => way.refuse('INSUFFICIENT_BALANCE', 'InsufficientBalance'),
  'bad contract': way => way.refuse('INVALID_CONTRACT', 'ContractBuyValidationError'),
  'market closed': way => way.refuse('MARKET_CLOSED', 'MarketIsClosed', { secondsUntilOpen: 3600 }),
  'token refused': way => way.refuse('BROKER_DISCONNECTED', 'InvalidToken', { rejected: true }),
  'lost response, bought twice by the trader'(way) {
    way.run(0, () => way.others(way.int(0, 2000)))
  },
  // Who cannot see the application can distinguish another's purchase by its time, or by what else was bought there.
  'lost request, bought by another application'(way) {
    const known = way.showsApps || way.int(0, 1) === 0
    if (!known)
      way.others(0, { contract: way.otherTerms(), appId: '999', boughtAt: way.now - way.int(60_000, 3_600_000) })
    way.others(way.showsApps || !known ? way.int(0, 5000) : way.int(7500, 15_000), { appId: '999' })
  },
  'lost request, bought by the trader before': way => way.others(0, { boughtAt: way.now - way.int(6500, 30_000) }),
  'lost request, bought by the trader after': way => way.othersAfterwards(way.int(49_500, 52_500)),
  'lost request, the trader bought something else': way => way.others(way.int(0, 5000), { contract: way.otherTerms() }),
  'lost request, the trader bought something unreadable': way => way.others(way.int(0, 5000), { readable: false }),
  'lost response, unreadable': way => way.run(0, () => {}, { readable: false }),
  'frozen before the write'(way) {
    const ms = way.int(4000, 60_000)
    way.freeze(ms)
    way.run(ms, way.notify(), { excused: true, writtenAt: way.now + ms })
  }
}

/** How long a purchase waits to be written, be it for the budget of calls or for the connection. */
export function waitMs(chance: Chance, often: number): number {
  // Now and then longer than the permit lasts.
  return chance.is(0.01) ? chance.int(2000, 9000) : chance.is(often) ? chance.int(50, 2000) : 0
}

/** Lets a written request's fate happen. */
export function meetFate(connection: SimulatedConnection, fate: BuyFate, written: Written): void {
  const { world, generation } = connection
  const { chance, counts, schedule } = world
  counts.add(`buy: ${fate}`)
  schedule.note('', () => `written for ${written.account.accountId}: ${fate}`)
  const wayMs = chance.is(0.01) ? chance.int(100, 1500) : chance.int(3, 40)
  const { now } = schedule
  const byOthers = (changes: BuyChanges) => {
    counts.add('bought by others')
    purchase(world, written, { foreign: true, writtenAt: null, ...changes })
  }
  fates[fate]({
    now,
    showsApps: world.books.showsApps,
    int: (low, high) => chance.int(low, high),
    otherTerms() {
      const { contract } = written
      const dearer = { ...contract, stake: new Big(contract.stake).times('1.5').toFixed(2) }
      if (contract.kind === 'MULTIPLIER' || chance.is(0.5)) return dearer
      return { ...contract, duration: contract.duration + 1 }
    },
    run(ms, then = () => {}, changes = {}) {
      const execute = () => {
        // A connection that broke while the request was on its way may have taken it along.
        const broke = connection.generation !== generation && ms < BROKER_TIMEOUT_MS && chance.is(0.5)
        if (broke) counts.add('buy: lost on its way')
        else if (now < world.downUntil || schedule.now < world.downUntil) counts.add('buy: broker was down')
        else then(purchase(world, written, { writtenAt: now, ...changes }))
      }
      const label = `execute ${written.account.accountId}`
      schedule.after(wayMs + ms, null, label, () => {
        if (!connection.actor.dead || !written.waiting() || chance.is(0.5)) return execute()
        counts.add('buy: sent on for a dead process')
        schedule.after(chance.int(100, KERNEL_MS), null, label, execute)
      })
    },
    runHeld(ms, changes = {}) {
      const { accountId } = written.account
      let isReset = false
      const reset = () => {
        if (isReset) return
        isReset = true
        world.books.held(accountId, schedule.now + ms)
        schedule.after(ms, null, `execute ${accountId}`, () => purchase(world, written, { writtenAt: now, ...changes }))
      }
      if (!written.waiting()) return reset()
      world.books.held(accountId, written.givesUpAt + ms)
      written.onReset(reset)
      // One that died or is frozen does not break it off. While its sender lives and does not, a connection holds
      // what it likes.
      schedule.after(written.givesUpAt - now, null, 'held no longer', () => {
        const { dead, frozenUntil } = connection.actor
        if (dead || frozenUntil > schedule.now) reset()
        else schedule.after(HELD_LONGER_MS, null, 'held no longer', reset)
      })
    },
    others(ms, changes = {}) {
      schedule.after(ms, null, 'bought by others', () => byOthers(changes))
    },
    othersAfterwards(ms) {
      world.gone.add(written.account.accountId)
      schedule.really(ms, 'bought by others afterwards', async () => {
        if (!(await world.mayArrive(written.account.accountId))) byOthers({})
      })
    },
    refuse: (code, brokerCode, facts) => written.refused(refusal(code, brokerCode, facts), wayMs * 2),
    refuseLists: ms => void world.spentUntil.set(written.account.accountId, now + ms),
    timeOut: () => written.refused(refusal('BROKER_UPSTREAM', 'Timeout', { ran: 'unknown' }), BROKER_TIMEOUT_MS),
    notify: ms => deal => written.done(deal, ms ?? chance.int(3, 60)),
    cut: () => connection.cut(chance.int(20, chance.is(0.8) ? 300 : 3000)),
    freeze: ms => world.freeze(connection.actor, ms)
  })
}

function purchase(world: BrokerWorld, { account, contract }: Written, { lagMs, ...changes }: BuyChanges): Deal {
  const { books, schedule, chance, counts } = world
  const boughtAt = changes.boughtAt ?? schedule.now
  const deal = books.buy({
    accountId: account.accountId,
    appId: account.appId,
    contract,
    boughtAt,
    // Lists may lag behind.
    visibleAt: boughtAt + (lagMs ?? (chance.is(0.8) ? 0 : chance.int(0, LIST_LAG_MS))),
    writtenAt: null,
    foreign: false,
    excused: false,
    readable: true,
    wins: chance.is(0.5),
    ...changes
  })
  if (Number.isFinite(deal.endsAt))
    schedule.after(deal.endsAt - schedule.now, null, `end ${deal.id}`, () => {
      if (books.sell(deal, schedule.now, false)) announce(world, deal)
    })
  counts.add('contract')
  return deal
}

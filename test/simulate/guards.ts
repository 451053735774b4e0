// The guards of an order's life, and how each is taken out: edits of the source, statements on the simulation's
// database, or both where one guard backs another and either alone would do. test/request/guards.test.ts holds the edits
// against the source.
import type { Dialect } from '../support/dialects.ts'
import type { Mode, Troubles } from './chance.ts'

export interface Edit {
  file: string
  /** Stands in the file exactly once. */
  from: string
  to: string
}

/** The source without a guard. Throws unless its text stands there exactly once. */
export function edited(source: string, { file, from, to }: Edit): string {
  const parts = source.split(from)
  if (parts.length !== 2) throw new Error(`${file} has the text of this guard ${parts.length - 1} times: ${from}`)
  return parts.join(to)
}

interface Gap {
  name: string
  edits?: Edit[]
  sql?: string[]
}

/** One that simulations miss when it is gone. */
export interface SimulatedGuard extends Gap {
  /** Only there it guards; by default the first. */
  dialect?: Dialect
  /** What the simulation that misses the guard concentrates on. */
  mode: Mode
  buys?: Partial<Troubles['buys']>
  /** Lives of one simulation. */
  lives: number
  /** Found so fast that every run of the tests looks for it. */
  quick?: true
}

/** One that a test misses: where statements race, which in simulations follow one another. */
export interface TestedGuard extends Gap {
  test: string
}

export type Guard = SimulatedGuard | TestedGuard

const placing = 'worker/orders/placing.ts'
const claiming = 'db/orders/claiming.ts'
const rows = 'db/orders/placing.ts'
const resolving = 'db/orders/resolving.ts'
const deciding = 'worker/orders/resolving.ts'
const evidence = 'worker/orders/evidence.ts'
const storing = 'db/orders/storing.ts'
const following = 'db/orders/following.ts'
const settling = 'worker/orders/settle.ts'

const edit = (file: string, from: string, to: string): Edit => ({ file, from, to })

// Guards that stand in for each other are taken out together.
const uncapped = edit(
  claiming,
  "permit_until = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at)",
  "permit_until = clock.at + :permitMs * interval '1 millisecond'"
)
const unconstrained = ['alter table orders drop constraint orders_permit']
const unowned = edit(evidence, 'if (owned.has(contractId)) continue', 'if (!owned) continue')

/** A guard of what a doubt is decided by: it takes a broker that leaves doubts. */
const decision = (
  name: string,
  from: string,
  to: string,
  { file = deciding, ...rest }: Partial<SimulatedGuard> & { file?: string } = {}
): Guard => ({
  name,
  edits: [edit(file, from, to)],
  mode: 'broker',
  lives: 1500,
  ...rest
})

export const guards: Guard[] = [
  {
    name: 'the intent is a conditional update: one run moves the row to sending',
    edits: [
      edit(
        claiming,
        `(select o.id, o.phase, o.expires_at, o.not_before, o.partner_id, o.app_id, o.asset from orders o where o.id = h.id for update skip locked) m
        where case m.phase when 'queued' then m.expires_at > clock_timestamp() end
          and (m.not_before is null or m.not_before <= clock_timestamp())`,
        '(select o.id, o.partner_id, o.app_id, o.asset from orders o where o.id = h.id) m where true'
      )
    ],
    test: 'test/orders/placing.test.ts'
  },
  {
    name: 'no order is claimed that a halt of trading applies to',
    edits: [edit(claiming, `and not ${'$'}{isHalted('m')}`, '')],
    test: 'test/orders/halts.test.ts'
  },
  {
    name: 'no order is sent that a halt of trading applies to',
    edits: [edit(placing, 'if (halt) throw permitExpired(missing)', '')],
    test: 'test/orders/halts.test.ts'
  },
  {
    name: 'no order is stored that a halt of trading applies to',
    edits: [edit(storing, 'where v.halt is null', '')],
    test: 'test/orders/halts.test.ts'
  },
  // The index by itself backs the question where two claims race: test/orders/placing.test.ts waits for its refusal.
  {
    name: 'one order in doubt per account, asked for and indexed',
    edits: [edit(claiming, 'where s.sending = 0', 'where s.sending >= 0')],
    sql: ['drop index orders_one_in_doubt'],
    mode: 'crowded',
    lives: 600
  },
  {
    name: 'the permit is checked right before the write',
    edits: [
      edit(
        placing,
        'if (late.signal.aborted || clock.now() >= deadline || clock.wall() >= wallDeadline)',
        'if (deadline < 0 || wallDeadline < 0)'
      ),
      edit(placing, '() => giveUp() && reject(', '() => deadline < 0 && giveUp() && reject(')
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  {
    name: 'the permit is counted from before the claim',
    edits: [edit(placing, 'deadline: permit.from + order.permit_ms', 'deadline: clock.now() + order.permit_ms')],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'the permit ends with the time to live, in the statement and as a constraint',
    edits: [uncapped],
    sql: unconstrained,
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'an order past its time to live is not claimed, and its permit is capped',
    edits: [
      edit(
        claiming,
        `where case m.phase when 'queued' then m.expires_at > clock_timestamp() end`,
        `where m.phase = 'queued'`
      ),
      uncapped
    ],
    sql: unconstrained,
    mode: 'database',
    lives: 1500
  },
  {
    name: 'a buy in doubt is not sent again',
    edits: [
      edit(placing, `if (error.ran === 'unknown') {`, `if (error.ran === undefined) {`),
      edit(placing, `if (!written && error.code === 'BROKER_UPSTREAM' &&`, `if (error.code === 'BROKER_UPSTREAM' &&`)
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  {
    name: "nobody looks before the permit and the broker's own time-out are over",
    edits: [
      edit(
        claiming,
        `+ :reconcileAfterMs * interval '1 millisecond'\n         from clock`,
        `+ :reconcileAfterMs * interval '1 microsecond'\n         from clock`
      )
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  decision('absence takes more than one look', 'const LOOKS = 2', 'const LOOKS = 1', {
    mode: 'usual',
    buys: { 'time-out, as late as can be': 5 }
  }),
  {
    name: 'what a dead process has sent is waited for',
    edits: [edit(resolving, 'then 0 else :crashedMs end', 'then 0 else 0 * :crashedMs end')],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'what reaches the broker last is waited for until it is executed',
    edits: [
      edit(resolving, 'else :crashedMs end + :reconcileAfterMs)', 'else :crashedMs end + 0 * :reconcileAfterMs)')
    ],
    mode: 'crashes',
    buys: { 'time-out, as late as can be': 30 },
    lives: 6000
  },
  {
    // Each of the three lists backs the two others.
    name: 'a look that failed proves nothing',
    edits: [
      edit(evidence, 'await session.portfolio()', 'await session.portfolio().catch(() => [])'),
      edit(evidence, 'session.statement({ from, ...page }))', 'session.statement({ from, ...page }).catch(() => []))'),
      edit(
        evidence,
        'session.profitTable({ from, ...page }))',
        'session.profitTable({ from, ...page }).catch(() => []))'
      )
    ],
    mode: 'broker',
    buys: { 'lost answer, lists refused': 15 },
    lives: 1500
  },
  decision('evidence that fits two readings is reviewed', 'inWindow.length === 1 && near.length === 0 &&', ''),
  decision('a contract of unreadable terms is never adopted unseen', 'if (found.terms === null) return false', ''),
  decision(
    'a contract whose buyer is not told is adopted only beyond a guess',
    'if (found.appId !== null) return true',
    'if (found) return true',
    { dialect: 'next' }
  ),
  decision(
    'a contract of other terms is not the order’s',
    'if (item.terms === null || matches(item.terms, contract)) fitting',
    'fitting',
    { file: evidence }
  ),
  decision(
    'a contract of another application is not the order’s',
    'const ours = item.appId === null || item.appId === order.app_id',
    'const ours = true',
    { file: evidence }
  ),
  // Without it such a contract is left to the operator, which no simulation complains of.
  {
    name: 'a contract dearer than the ceiling is not the order’s',
    edits: [edit(evidence, ' || new Big(item.buyPrice).gt(ceiling)', '')],
    test: 'test/doubt.test.ts'
  },
  decision(
    'a contract bought before the intent is not the order’s',
    'item.purchaseTime >= window.from && item',
    'item',
    { file: evidence }
  ),
  decision('a contract bought after the window is not the order’s', ' && item.purchaseTime <= window.to', '', {
    file: evidence,
    lives: 3000
  }),
  {
    name: 'a contract that another order owns is no candidate',
    edits: [unowned],
    mode: 'crowded',
    lives: 1500
  },
  {
    name: 'a contract has one order, asked for and indexed',
    edits: [unowned],
    sql: ['drop index orders_contract'],
    mode: 'crowded',
    lives: 1500
  },
  {
    name: 'a purchase whose write was not acknowledged is recognised',
    edits: [edit(placing, 'if (kept?.broker_order_id !== contractId) {', 'if (kept) {')],
    mode: 'database',
    lives: 1500
  },
  {
    name: 'an answer is written to the attempt it belongs to',
    edits: [
      edit(
        rows,
        `where o.id = c.id and o.attempt = c.attempt and o.phase = 'sending' and o.sender = :sender`,
        `where o.id = c.id and o.phase = 'sending' and o.sender = :sender`
      )
    ],
    test: 'test/orders/placing.test.ts'
  },
  {
    name: 'a clientOrderId names one order',
    sql: ['alter table orders drop constraint orders_client_order_id'],
    mode: 'database',
    lives: 300,
    quick: true
  },
  {
    name: 'only a failed order is queued again under its id',
    edits: [
      edit(
        storing,
        `and o.phase = 'failed' and o.retryable and`,
        `and (o.phase = 'failed' and o.retryable or o.phase = 'sending') and`
      )
    ],
    mode: 'usual',
    lives: 600
  },
  {
    name: 'a definite refusal stays',
    edits: [edit(storing, `and o.phase = 'failed' and o.retryable and`, `and o.phase = 'failed' and`)],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'what waits without a job is found by the clock',
    edits: [
      edit(
        'worker/jobs.ts',
        'await placing.claim(await listWaitingAccounts(db, waiting, placing.rooms()))',
        'await listWaitingAccounts(db, waiting, placing.rooms())'
      )
    ],
    test: 'test/orders/placing.test.ts'
  },
  {
    name: 'the orders of a worker whose lease ran out are taken over',
    edits: [edit(following, 'f.name = n.name and f.lease_until >= now()', 'f.name = n.name')],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'a worker lets go of orders that name it and that it knows nothing of',
    edits: [edit(settling, 'if (lost.length > 0) handBack(lost, 0)', '')],
    mode: 'database',
    lives: 600
  },
  // Clocks, late arrivals, commits that are gone, suspended machines, lost acknowledgements: put back one by one.
  {
    name: "a worker's wrong clock moves no window, and what lies near it is a doubt",
    edits: [
      edit(evidence, 'brokerMinusWall + (wallMs - order.read_ms) / 1000', 'brokerMinusWall'),
      edit(evidence, 'else if (isNear(item, window)) candidates.near.push(item)', '')
    ],
    mode: 'clocks',
    lives: 600
  },
  decision(
    'a contract of the same terms near the window is a doubt',
    'else if (isNear(item, window)) candidates.near.push(item)',
    '',
    { file: evidence, mode: 'clocks', lives: 1500 }
  ),
  {
    name: 'what the broker received before the reset may be executed after it',
    edits: [
      edit(
        resolving,
        'then 0 else :crashedMs end + :reconcileAfterMs)',
        'then 0 else 0 + :crashedMs + :reconcileAfterMs end)'
      )
    ],
    mode: 'late',
    lives: 600
  },
  {
    name: 'a connection on which an order got no answer is reset',
    edits: [edit('worker/broker/transport/line.ts', "connection.reset('an order got no answer')", 'void connection')],
    mode: 'frames',
    buys: { 'held, run after the reset': 20 },
    lives: 600
  },
  {
    name: 'commits wait for the disk, whatever the server does by itself',
    edits: [edit('db/postgres/connection.ts', "'-c synchronous_commit=on'", "'-c synchronous_commit=off'")],
    mode: 'forgetful',
    lives: 1500
  },
  {
    name: 'the permit ends on the wall clock, too, for a machine that was suspended',
    edits: [edit(placing, ' || clock.wall() >= wallDeadline', '')],
    mode: 'suspended',
    lives: 1500
  },
  {
    name: 'a claim whose acknowledgement was lost is given back',
    edits: [edit(placing, 'if (lostClaims.size === 0) return', 'if (lostClaims.size >= 0) return')],
    mode: 'database',
    lives: 300,
    quick: true
  },
  {
    name: 'a settlement that contradicts itself is not booked',
    edits: [edit(settling, 'if (why.length > 0) {', 'if (why.length > 99) {')],
    mode: 'spoiled',
    lives: 600
  },
  // Rows that hardly any life gets to.
  {
    name: 'an answer opens the attempt it belongs to',
    edits: [
      edit(
        rows,
        `and o.id = r.id and o.attempt = r.attempt and o.phase in ('sending', 'review')
     returning ${'$'}{followingColumns}`,
        `and o.id = r.id and o.phase in ('sending', 'review')
     returning ${'$'}{followingColumns}`
      )
    ],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'a refusal fails the attempt it belongs to',
    edits: [
      edit(
        rows,
        `and o.id = r.id and o.attempt = r.attempt and o.phase in ('sending', 'review')
     returning o.*`,
        `and o.id = r.id and o.phase in ('sending', 'review')
     returning o.*`
      )
    ],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'a review is of the attempt it belongs to',
    edits: [
      edit(
        resolving,
        "where id = :id and attempt = :attempt and phase = 'sending'",
        "where id = :id and :attempt::int > 0 and phase = 'sending'"
      )
    ],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'a check is counted for the attempt it belongs to',
    edits: [
      edit(
        resolving,
        "where o.id = :id and o.attempt = :attempt and o.phase = 'sending'",
        "where o.id = :id and :attempt::int > 0 and o.phase = 'sending'"
      )
    ],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'only an open order is closed',
    edits: [edit(following, "and o.id = s.id and o.phase = 'open'", 'and o.id = s.id')],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'a follow whose loss passed its limit is paused',
    edits: [edit('db/copy/fanout.ts', '-since_pnl >= base_balance * max_drawdown_pct / 100', 'since_pnl is null')],
    test: 'test/copy/copy.test.ts'
  },
  {
    name: 'an order is copied once for each follow, asked for and indexed',
    edits: [edit('worker/copy/fanout.ts', '.filter(({ copied }) => !copied)', '')],
    sql: ['drop index orders_copy'],
    mode: 'copying',
    lives: 600
  },
  {
    name: 'what a copy may lose fits into the limit of its follow',
    edits: [
      edit(
        'worker/copy/terms.ts',
        'if (new Big(candidate.lost).plus(candidate.atRisk).plus(terms.worstCase).gt(limit)) {',
        'if (limit.lt(0)) {'
      )
    ],
    mode: 'copying',
    lives: 600
  },
  {
    name: 'what a leader closes early is closed for its followers',
    edits: [edit(following, 'from closed where closes_copies', 'from closed where closes_copies is null')],
    mode: 'copying',
    lives: 600
  },
  {
    name: 'a contract whose stream fell silent is asked for',
    edits: [edit(settling, '      askSilent()\n', '')],
    test: 'test/following.test.ts'
  }
]

// Guards that simulations miss when they are taken out.
import { edit, files, type SimulatedGuard } from './guard.ts'

const {
  claiming,
  closing,
  contractLeases,
  deciding,
  evidence,
  leases,
  placing,
  releases,
  resolving,
  responses,
  sending,
  storing
} = files

// Guards that replace each other are taken out together.
const uncapped = edit(
  claiming,
  "permit_until = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at)",
  "permit_until = clock.at + :permitMs * interval '1 millisecond'"
)
const unconstrained = ['alter table orders drop constraint orders_permit']
const unowned = edit(evidence, 'found.filter(({ contractId }) => !owned.has(contractId))', 'owned ? found : []')

/** A guard of what a doubt is decided by: it takes a broker that leaves doubts. */
const decision = (
  name: string,
  from: string,
  to: string,
  { file = deciding, ...rest }: Partial<SimulatedGuard> & { file?: string } = {}
): SimulatedGuard => ({
  name,
  edits: [edit(file, from, to)],
  mode: 'broker',
  lives: 1500,
  ...rest
})

export const simulatedGuards: SimulatedGuard[] = [
  {
    name: 'every change of an order writes its event',
    sql: ['drop trigger events on orders'],
    mode: 'usual',
    lives: 300
  },
  // The index by itself backs the question where two claims race: test/orders/placing.test.ts waits for its refusal.
  {
    name: 'one order in doubt per account, checked and indexed',
    edits: [edit(claiming, 'where s.sending = 0', 'where s.sending >= 0')],
    sql: ['drop index orders_one_in_doubt'],
    mode: 'crowded',
    lives: 600
  },
  {
    name: 'the permit is checked right before the write',
    edits: [
      edit(
        sending,
        'if (this.signal.aborted || clock.now() >= this.deadline || clock.wall() >= this.#wallDeadline)',
        'if (this.deadline < 0 || this.#wallDeadline < 0)'
      ),
      edit(sending, '() => this.#giveUp() && reject(', '() => this.deadline < 0 && this.#giveUp() && reject(')
    ],
    mode: 'broker',
    lives: 300
  },
  {
    name: 'the permit is counted from before the claim',
    // Either clock ends the permit, so each backs the other.
    edits: [
      edit(placing, ' deadline: permit.from + order.permit_ms', ' deadline: clock.now() + order.permit_ms'),
      edit(placing, 'wallDeadline: permit.wallFrom + order.permit_ms', 'wallDeadline: clock.wall() + order.permit_ms')
    ],
    mode: 'database',
    lives: 1500
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
      edit(claiming, `where case m.phase when 'queued' then not \${isOver('m')} end`, `where m.phase = 'queued'`),
      uncapped
    ],
    sql: unconstrained,
    mode: 'database',
    lives: 1500
  },
  {
    name: 'a buy in doubt is not sent again',
    edits: [
      edit(responses, `if (error.ran === 'unknown') {`, `if (error.ran === undefined) {`),
      edit(responses, `if (!written && error.code === 'BROKER_UPSTREAM' &&`, `if (error.code === 'BROKER_UPSTREAM' &&`)
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
  decision('absence takes more than one look', 'const CHECKS = 2', 'const CHECKS = 1', {
    mode: 'late',
    buys: { 'held, run and shown as late as can be': 5 }
  }),
  {
    name: 'what a dead process has sent is waited for',
    edits: [edit(resolving, 'then 0 else :crashedMs end', 'then 0 else 0 * :crashedMs end')],
    mode: 'crashes',
    lives: 3000
  },
  {
    // Each of the three lists backs the two others.
    name: 'a check that failed proves nothing',
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
    buys: { 'lost response, lists refused': 15 },
    lives: 1500
  },
  decision('evidence that fits two readings is reviewed', 'inWindow.length === 1 && near.length === 0', 'true'),
  decision('a contract of unreadable terms is never adopted unseen', ": ['its terms']", ': []', { file: evidence }),
  decision(
    'a contract whose buyer is not reported is adopted only beyond a guess',
    'if (found.appId !== null) return true',
    'if (found) return true',
    { dialect: 'next' }
  ),
  decision(
    'a contract of other terms is not the order’s',
    'return terms === null || matches(terms, contract)',
    'return true',
    { file: evidence }
  ),
  decision(
    'a contract of another application is not the order’s',
    'isOfApp(item) && fitsTerms(item, contract)',
    'fitsTerms(item, contract)',
    { file: evidence }
  ),
  decision('a contract bought before the intent is not the order’s', 'purchaseTime >= window.from && ', '', {
    file: evidence
  }),
  decision('a contract bought after the window is not the order’s', ' && purchaseTime <= window.to', '', {
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
    name: 'a contract has one order, checked and indexed',
    edits: [unowned],
    sql: ['drop index orders_contract'],
    mode: 'crowded',
    lives: 1500
  },
  {
    name: 'a clientOrderId names one order',
    sql: ['alter table orders drop constraint orders_client_order_id'],
    mode: 'database',
    lives: 300
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
    name: 'the orders of a worker whose lease ran out are taken over',
    edits: [edit(leases, 'f.name = n.name and f.lease_until >= now()', 'f.name = n.name')],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'a worker lets go of orders that name it and that it knows nothing of',
    edits: [edit(contractLeases, 'if (lost.length > 0) watching.handBack(lost, 0)', '')],
    mode: 'database',
    lives: 600
  },
  // Clocks, late arrivals, commits that are gone, suspended machines, lost acknowledgements: put back one by one.
  {
    name: "a worker's wrong clock moves no window, and what lies near it is a doubt",
    edits: [
      edit(evidence, ' + (wallMs - readMs) / 1000', ''),
      edit(evidence, 'else if (isNear(item, window)) candidates.near.push(item)', '')
    ],
    mode: 'clocks',
    lives: 600
  },
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
    name: 'a connection on which an order got no response is reset',
    edits: [
      edit('worker/broker/transport/reconnecting.ts', "connection.reset('an order got no response')", 'void connection')
    ],
    mode: 'frames',
    buys: { 'held, run after the reset': 20 },
    lives: 600
  },
  {
    name: 'commits wait for the disk, whatever the server does by itself',
    edits: [edit('db/postgres/connection.ts', "synchronous_commit: 'on'", "synchronous_commit: 'off'")],
    mode: 'forgetful',
    lives: 1500
  },
  {
    name: 'the permit ends on the wall clock, too, for a machine that was suspended',
    edits: [edit(sending, ' || clock.wall() >= this.#wallDeadline', '')],
    mode: 'suspended',
    lives: 1500
  },
  {
    name: 'a claim whose acknowledgement was lost is given back',
    edits: [edit(releases, 'if (this.#lostClaims.size === 0) return', 'if (this.#lostClaims.size >= 0) return')],
    mode: 'database',
    lives: 300
  },
  {
    name: 'a halt stops what a worker has claimed and not sent',
    edits: [edit(sending, 'this.halt = this.#findHalt()', 'this.halt = undefined')],
    mode: 'halted',
    lives: 600
  },
  {
    name: 'no order of a halted scope is stored, claimed or sent',
    edits: [
      edit(
        'db/platform/halts.ts',
        "(h.scope, h.subject) in (('all', '')",
        "false and (h.scope, h.subject) in (('all', '')"
      ),
      edit(sending, 'this.halt = this.#findHalt()', 'this.halt = undefined')
    ],
    mode: 'halted',
    lives: 600
  },
  {
    name: 'a settlement that contradicts itself is not booked',
    edits: [edit(closing, 'if (why.length > 0) {', 'if (why.length > 99) {')],
    mode: 'spoiled',
    lives: 600
  },
  {
    name: 'an order is copied once for each follow, checked and indexed',
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
    edits: [edit(leases, 'from closed where closes_copies', 'from closed where closes_copies is null')],
    mode: 'copying',
    lives: 600
  }
]

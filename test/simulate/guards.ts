// The guards of an order's life, and how each is taken out: edits of the source, statements on the simulation's
// database, or both where one guard backs another and either alone would do.
import type { Dialect } from '../dialects.ts'
import type { Mode, Troubles } from './chance.ts'

export interface Edit {
  file: string
  /** Stands in the file exactly once. */
  from: string
  to: string
}

export interface Guard {
  name: string
  edits?: Edit[]
  sql?: string[]
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

const placing = 'worker/orders.ts'
const claiming = 'db/orders-claiming.ts'
const rows = 'db/orders-placing.ts'
const deciding = 'worker/reconcile.ts'
const storing = 'db/orders-storing.ts'
const following = 'db/orders-following.ts'
const settling = 'worker/settle.ts'

const permitColumn = "permit_until = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at)"

export const guards: Guard[] = [
  {
    name: 'the intent is a conditional update: one run moves the row to sending',
    edits: [
      {
        file: claiming,
        from: `(select o.id, o.phase, o.expires_at from orders o where o.id = h.id for update skip locked) m
        where case m.phase when 'queued' then m.expires_at > clock_timestamp() end`,
        to: '(select o.id from orders o where o.id = h.id) m'
      }
    ],
    mode: 'usual',
    lives: 1500
  },
  {
    name: 'one order in doubt per account, asked for and indexed',
    edits: [
      {
        file: claiming,
        from: 'where s.sending = 0',
        to: 'where s.sending >= 0'
      }
    ],
    sql: ['drop index orders_one_in_doubt'],
    mode: 'crowded',
    lives: 600
  },
  {
    name: 'one order in doubt per account: the partial unique index alone',
    sql: ['drop index orders_one_in_doubt'],
    mode: 'crowded',
    lives: 3000
  },
  {
    name: 'the permit is checked right before the write',
    edits: [
      { file: placing, from: 'if (late.signal.aborted || clock.now() >= deadline)', to: 'if (deadline < 0)' },
      { file: placing, from: '() => giveUp() && reject(', to: '() => deadline < 0 && giveUp() && reject(' }
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  {
    name: 'the permit is counted from before the claim',
    edits: [
      { file: placing, from: 'deadline: askedAt + order.permit_ms', to: 'deadline: clock.now() + order.permit_ms' }
    ],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'the permit ends with the time to live, in the statement and as a constraint',
    edits: [
      { file: claiming, from: permitColumn, to: `permit_until = clock.at + :permitMs * interval '1 millisecond'` }
    ],
    sql: ['alter table orders drop constraint orders_permit'],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'an order past its time to live is not claimed, and its permit is capped',
    edits: [
      {
        file: claiming,
        from: `where case m.phase when 'queued' then m.expires_at > clock_timestamp() end`,
        to: `where m.phase = 'queued'`
      },
      { file: claiming, from: permitColumn, to: `permit_until = clock.at + :permitMs * interval '1 millisecond'` }
    ],
    sql: ['alter table orders drop constraint orders_permit'],
    mode: 'database',
    lives: 1500
  },
  {
    name: 'a buy in doubt is not sent again',
    edits: [
      { file: placing, from: `if (error.ran === 'unknown') {`, to: `if (error.ran === undefined) {` },
      {
        file: placing,
        from: `if (!written && error.code === 'BROKER_UPSTREAM') {`,
        to: `if (error.code === 'BROKER_UPSTREAM') {`
      }
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  {
    name: "nobody looks before the permit and the broker's own time-out are over",
    edits: [
      {
        file: claiming,
        from: `+ :reconcileAfterMs * interval '1 millisecond'\n         from clock`,
        to: `+ :reconcileAfterMs * interval '1 microsecond'\n         from clock`
      }
    ],
    mode: 'broker',
    lives: 300,
    quick: true
  },
  {
    name: 'absence takes more than one look',
    edits: [{ file: deciding, from: 'const LOOKS = 2', to: 'const LOOKS = 1' }],
    mode: 'crowded',
    buys: { 'time-out, run late': 15 },
    lives: 1500
  },
  {
    name: 'a look that failed proves nothing',
    edits: [
      {
        file: deciding,
        from: 'for (const item of await evidenceSince(session, from)) {',
        to: 'for (const item of await evidenceSince(session, from).catch(() => [])) {'
      }
    ],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'evidence that fits two readings is reviewed',
    edits: [{ file: deciding, from: 'candidates.length === 1 &&', to: '' }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract of unreadable terms is never adopted unseen',
    edits: [{ file: deciding, from: 'if (found.terms === null) return false', to: '' }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract whose buyer is not told is adopted only beyond a guess',
    edits: [{ file: deciding, from: 'if (found.appId !== null) return true', to: 'if (found) return true' }],
    dialect: 'next',
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract of other terms is not the order’s',
    edits: [{ file: deciding, from: 'if (item.terms === null || matches(item.terms, contract)) seen', to: 'seen' }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract of another application is not the order’s',
    edits: [
      {
        file: deciding,
        from: 'const ours = item.appId === null || item.appId === order.app_id',
        to: 'const ours = true'
      }
    ],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract dearer than the stake is not the order’s',
    edits: [{ file: deciding, from: ' || new Big(item.buyPrice).gt(order.stake)', to: '' }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract bought before the intent is not the order’s',
    edits: [{ file: deciding, from: 'item.purchaseTime < from || ', to: '' }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'a contract bought after the window is not the order’s',
    edits: [{ file: deciding, from: 'item.purchaseTime > latest || ', to: '' }],
    mode: 'broker',
    lives: 3000
  },
  {
    name: "the window is told in the broker's time",
    edits: [
      {
        file: deciding,
        from: 'const from = Math.floor((order.sent_at as Date).getTime() / 1000 + offset) - SLACK_SECONDS',
        to: 'const from = Math.floor((order.sent_at as Date).getTime() / 1000 + 9) - SLACK_SECONDS'
      }
    ],
    mode: 'usual',
    lives: 600
  },
  {
    name: 'a contract that another order owns is no candidate',
    edits: [
      {
        file: deciding,
        from: 'return [...seen.values()].filter(({ contractId }) => !owned.has(contractId))',
        to: 'return owned ? [...seen.values()] : []'
      }
    ],
    mode: 'crowded',
    lives: 1500
  },
  {
    name: 'a contract has one order, asked for and indexed',
    edits: [
      {
        file: deciding,
        from: 'return [...seen.values()].filter(({ contractId }) => !owned.has(contractId))',
        to: 'return owned ? [...seen.values()] : []'
      }
    ],
    sql: ['drop index orders_contract'],
    mode: 'crowded',
    lives: 1500
  },
  {
    name: 'an answer is written to the attempt it belongs to',
    edits: [
      {
        file: rows,
        from: `where o.id = c.id and o.attempt = c.attempt and o.phase = 'sending' and o.sender = :sender`,
        to: `where o.id = c.id and o.phase = 'sending' and o.sender = :sender`
      }
    ],
    mode: 'database',
    lives: 3000
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
      {
        file: storing,
        from: `and o.phase = 'failed' and o.retryable and`,
        to: `and (o.phase = 'failed' and o.retryable or o.phase = 'sending') and`
      }
    ],
    mode: 'usual',
    lives: 600
  },
  {
    name: 'a definite refusal stays',
    edits: [{ file: storing, from: `and o.phase = 'failed' and o.retryable and`, to: `and o.phase = 'failed' and` }],
    mode: 'broker',
    lives: 1500
  },
  {
    name: 'what waits without a job is found by the clock',
    edits: [
      {
        file: 'worker/jobs.ts',
        from: 'await placing.claim(await listWaitingAccounts(db, config.sweepMs, 1000))',
        to: 'await listWaitingAccounts(db, config.sweepMs, 1000)'
      }
    ],
    mode: 'crashes',
    lives: 1500
  },
  {
    name: 'the orders of a worker whose lease ran out are taken over',
    edits: [{ file: following, from: 'f.name = n.name and f.lease_until >= now()', to: 'f.name = n.name' }],
    mode: 'crashes',
    lives: 3000
  },
  {
    name: 'a worker lets go of orders that name it and that it knows nothing of',
    edits: [{ file: settling, from: 'if (lost.length > 0) handBack(lost, 0)', to: '' }],
    mode: 'database',
    lives: 600
  },
  {
    name: 'a contract whose stream fell silent is asked for',
    edits: [{ file: settling, from: '      askSilent()\n', to: '' }],
    mode: 'broker',
    lives: 1500
  }
]

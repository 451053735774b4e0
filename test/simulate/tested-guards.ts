// Guards that a test misses when they are taken out: where statements race, which in simulations follow one another, where
// hardly any life gets to, or where a process of another kind is at work.
import { edit, files, type TestedGuard } from './guard.ts'

const {
  archive,
  archivedNames,
  archiving,
  claiming,
  contractLeases,
  copyClosing,
  evidence,
  leases,
  lineage,
  listing,
  passedOver,
  reading,
  resolving,
  rows,
  sending,
  storing
} = files

const orderGuards: TestedGuard[] = [
  {
    name: 'the intent is a conditional update: one run moves the row to sending',
    edits: [
      edit(
        claiming,
        `(select o.id, o.phase, o.queued_at, o.expires_at, o.not_before, o.partner_id, o.broker_account_id, o.account_mode, o.app_id, o.asset, o.follow_id, o.copied_from from orders o where o.id = h.id for update skip locked) m
        where case m.phase when 'queued' then not \${isOver('m')} end
          and (m.not_before is null or m.not_before <= clock_timestamp())`,
        '(select o.id, o.partner_id, o.broker_account_id, o.account_mode, o.app_id, o.asset, o.follow_id, o.copied_from from orders o where o.id = h.id) m where true'
      )
    ],
    test: 'test/orders/placing.test.ts'
  },
  {
    name: 'the time to live counts from when the request was sent',
    edits: [edit('api/orders/placing.ts', 'config.orderTtlMs - ageMs()', 'config.orderTtlMs')],
    test: 'test/orders/late-requests.test.ts'
  },
  {
    name: 'an order that reaches the database late is stored for the rest of its time to live',
    edits: [edit('db/orders/inserting.ts', `to_timestamp(\${row}.ends_by / 1000)`, 'null')],
    test: 'test/orders/late-requests.test.ts'
  },
  {
    name: 'the time to live of an order that was queued later than now is over',
    edits: [edit('db/orders/expired.ts', ` or \${isAhead(order)})`, ')')],
    test: 'test/orders/expired-orders.test.ts'
  },
  {
    name: 'no order is claimed on a history of the database that ended before one that the worker has seen',
    edits: [edit(lineage, 'and noted.generation >= :generation', '')],
    test: 'test/orders/durability.test.ts'
  },
  {
    name: 'no order is claimed on a database that is behind the position that the worker has seen',
    edits: [edit(lineage, ` and (noted.generation > :generation or \${position} >= :position::float8)`, '')],
    test: 'test/orders/durability.test.ts'
  },
  {
    name: 'no order is claimed on a database that no worker has seen for too long',
    edits: [edit(lineage, ` and not \${isUnseen}\n     and noted`, '\n     and noted')],
    test: 'test/orders/durability.test.ts'
  },
  {
    name: 'no order is claimed that a halt of trading applies to',
    edits: [edit(claiming, `and not ${'$'}{isHalted('m')}`, '')],
    test: 'test/orders/halts.test.ts'
  },
  {
    name: 'no order is sent that a halt of trading applies to',
    edits: [edit(sending, 'if (this.halt) throw this.#expired()', '')],
    test: 'test/orders/halts.test.ts'
  },
  {
    name: 'no order is stored that a halt of trading applies to',
    edits: [edit(storing, ' and w.halt is null', '')],
    test: 'test/orders/halts.test.ts'
  },
  {
    name: 'a clientOrderId of an archived order is not stored',
    edits: [edit(storing, ` and not ${'$'}{isArchived('w.partner_id', 'w.client_order_id')}`, '')],
    test: 'test/orders/archive.test.ts'
  },
  {
    name: 'a clientOrderId is searched in the archive again once its unique key has waited for a move',
    edits: [edit(archivedNames, 'if exists (select from fresh', 'if false and exists (select from fresh')],
    test: 'test/orders/archive.test.ts'
  },
  {
    name: 'a contract of an archived order opens no other',
    edits: [
      edit(
        archive,
        'if exists (select from orders_archive where broker_order_id',
        'if false and exists (select from orders_archive where broker_order_id'
      )
    ],
    test: 'test/orders/archive.test.ts'
  },
  {
    name: 'only final orders are archived, selected and checked',
    edits: [
      edit(archiving, `phase in ('closed', 'failed') and `, ''),
      edit(archive, `check (phase in ('closed', 'failed'))`, `check (phase is not null)`)
    ],
    test: 'test/orders/archive.test.ts'
  },
  {
    name: 'a page that archived orders may belong to is read with them',
    edits: [edit(listing, 'if (archived === undefined || isAbove(archived.newest)) return live', 'return live')],
    test: 'test/orders/archive.test.ts'
  },
  // Either way such a contract is left to the operator; what differs is the reason that is shown.
  {
    name: 'a contract dearer than the ceiling is not the order’s',
    edits: [edit(evidence, 'if (buyPrice !== null && new Big(buyPrice).gt(ceilingOf(contract))) return false', '')],
    test: 'test/orders/doubt-lists.test.ts'
  },
  {
    name: 'a response is written to the attempt it belongs to',
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
    name: 'what waits without a job is found by the clock',
    edits: [
      edit(
        'worker/loops.ts',
        'await placing.claim(await listWaitingAccounts(db, waiting, placing.rooms()))',
        'await listWaitingAccounts(db, waiting, placing.rooms())'
      )
    ],
    test: 'test/orders/placing.test.ts'
  },
  {
    name: 'what is queued while the order before it opens is claimed after it',
    edits: [edit(passedOver, 'if (this.#underWay.has(accountId)) this.#passed.add(accountId)', '')],
    test: 'test/orders/wake-ups.test.ts'
  },
  {
    name: 'a claim that began before an order ended counts as having passed over its account',
    edits: [edit(passedOver, 'for (const ended of this.#claims) ended.add(accountId)', '')],
    test: 'test/orders/wake-ups.test.ts'
  },
  {
    name: 'a hint gives its outcome to the order that it is of',
    edits: [edit(reading, 'if (found.id !== id) return undefined', '')],
    test: 'test/orders/wake-ups.test.ts'
  },
  {
    name: 'a hint of other columns has the row read',
    edits: [edit(reading, 'version !== OUTCOME_VERSION || ', '')],
    test: 'test/orders/wake-ups.test.ts'
  },
  // Rows that hardly any life gets to.
  {
    name: 'a response opens the attempt it belongs to',
    edits: [
      edit(
        rows,
        `and o.id = r.id and o.attempt = r.attempt
        and (o.phase in ('sending', 'review') or`,
        `and o.id = r.id
        and (o.phase in ('sending', 'review') or`
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
    edits: [edit(leases, "and o.id = s.id and o.phase = 'open'", 'and o.id = s.id')],
    test: 'test/orders/fences.test.ts'
  },
  {
    name: 'a follow whose loss passed its limit is paused',
    edits: [edit('db/copy/fanout.ts', '-since_pnl >= base_balance * max_drawdown_pct / 100', 'since_pnl is null')],
    test: 'test/copy/copy.test.ts'
  },
  {
    name: 'no copy is claimed whose follow was stopped or whose leader closed',
    edits: [edit(claiming, `and ${'$'}{unwantedOf('m')} is null`, '')],
    test: 'test/copy/copy-changes.test.ts'
  },
  {
    name: 'no order is claimed whose account was exchanged as one of the other mode since',
    edits: [edit(claiming, `and ${'$'}{otherModeOf('m')} is null`, '')],
    test: 'test/traders/account-proof.test.ts'
  },
  {
    name: 'a copy stays with the follower who stopped before its leader closed',
    edits: [edit(copyClosing, `(f.status <> 'STOPPED' or `, '(f.id is not null or ')],
    test: 'test/copy/copy-changes.test.ts'
  },
  {
    name: 'a copy is closed whose leader sold before its follow was stopped',
    edits: [edit(copyClosing, `coalesce(l.closed_at <= f.stopped_at - ${'$'}{CERTAINLY_BEFORE}, false)`, 'false')],
    test: 'test/copy/copy-changes.test.ts'
  },
  {
    name: 'a sale as close to the stop of a follow as clocks may differ by leaves the copy',
    edits: [edit(copyClosing, ` - ${'$'}{CERTAINLY_BEFORE}`, '')],
    test: 'test/copy/copy-changes.test.ts'
  },
  {
    name: 'a copy is closed whose leader was known to have closed when its follow was stopped',
    edits: [edit('db/copy/follows.ts', '  await closeWithLeader(trx, mine, { traderId, leaderId })\n', '')],
    test: 'test/copy/copy-changes.test.ts'
  },
  {
    name: 'a refusal in a session is about the token that the session was opened with',
    edits: [
      edit(
        'worker/broker/transport/reconnecting.ts',
        'if (error.rejected) error.tokenVersion = connection.tokenVersion',
        ''
      )
    ],
    test: 'test/traders/account-proof.test.ts'
  },
  {
    name: 'an order that another worker took meanwhile is left to it',
    edits: [edit(leases, 'else lease_holder in (select name from gone) end', 'else true end')],
    test: 'test/orders/contract-leases.test.ts'
  },
  {
    name: "a copy's time to live begins with its leader's purchase",
    edits: [edit('db/orders/copies.ts', 'coalesce(l.sent_at, l.queued_at)', 'clock_timestamp()')],
    test: 'test/copy/copy-changes.test.ts'
  },
  // A simulation finds these two, but takes tens of thousands of lives.
  {
    name: 'what reaches the broker last is waited for until it is executed',
    edits: [
      edit(resolving, 'else :crashedMs end + :reconcileAfterMs)', 'else :crashedMs end + 0 * :reconcileAfterMs)')
    ],
    test: 'test/orders/stalled.test.ts'
  },
  {
    name: 'a contract of the same terms near the window is a doubt',
    edits: [edit(evidence, 'else if (isNear(item, window)) candidates.near.push(item)', '')],
    test: 'test/orders/doubt.test.ts'
  },
  {
    name: 'a contract is near the window by either clock, the broker’s or the database’s',
    edits: [
      edit(evidence, 'Math.min(from, fromByDatabase)', 'from'),
      edit(
        evidence,
        'Math.min(from - Math.ceil(behind), fromByDatabase - Math.ceil(behindDatabase))',
        'from - Math.ceil(behind)'
      )
    ],
    test: 'test/orders/doubt-lists.test.ts'
  },
  {
    name: 'a contract that the broker may have altered is a doubt',
    edits: [edit(evidence, '[...inWindow, ...near, ...odd]', '[...inWindow, ...near]')],
    test: 'test/orders/doubt-lists.test.ts'
  },
  {
    name: 'a list that counts more rows than it has proves nothing',
    edits: [
      edit(
        'worker/broker/transport/session.ts',
        'if (Number(count) > rows.length) throw',
        'if (Number(count) < 0) throw'
      )
    ],
    test: 'test/orders/doubt-lists.test.ts'
  },
  {
    name: "a broker request is late by the database's clock",
    edits: [
      edit(
        'worker/platform/broker-requests.ts',
        'readAt + request.left_ms',
        'readAt + request.expires_at.getTime() - this.#services.clock.wall()'
      )
    ],
    test: 'test/orders/wrong-clocks.test.ts'
  },
  {
    name: 'a contract whose stream fell silent is polled',
    edits: [edit(contractLeases, '      watching.pollSilent()\n', '')],
    test: 'test/orders/contract-leases.test.ts'
  }
]

// The event log and the stream.
const sequencer = 'db/events/sequence.ts'
const subscription = 'api/events/stream/subscription.ts'
const socket = 'api/events/stream/socket.ts'

const eventGuards: TestedGuard[] = [
  {
    // Rows that are being moved make a second sequencer wait as well.
    name: 'one sequencer at a time moves events into the log',
    edits: [
      edit(sequencer, '(select pg_advisory_xact_lock(', '(select abs('),
      edit(
        sequencer,
        'cross join event_outbox o order by',
        'cross join (select * from event_outbox for update skip locked) o order by'
      )
    ],
    test: 'test/events/log.test.ts'
  },
  {
    name: 'an event names the cursor of the one that was sent before it',
    edits: [edit(subscription, '{this.#cursor}","event"', '{entry.cursor}","event"')],
    test: 'test/events/stream.test.ts'
  },
  {
    name: 'the log is read again where a hint was lost',
    edits: [
      edit(
        'api/events/stream/tail.ts',
        'setInterval(() => this.#read(), REREAD_MS)',
        'setInterval(() => {}, REREAD_MS)'
      )
    ],
    test: 'test/events/stream.test.ts'
  },
  {
    name: 'nothing after the cursor of `subscribed` can be missed',
    edits: [
      edit(socket, '  #begin({ id, channel', '  async #begin({ id, channel'),
      edit(
        socket,
        '    const subscription = new Subscription({',
        `    this.#sendMessage({ type: 'subscribed', id, channel, cursor: this.#text(point ?? this.#tail.state.latest) })
    await readLogState(this.#open.db, partnerId)
    const subscription = new Subscription({`
      ),
      edit(socket, "    this.#sendMessage({ type: 'subscribed', id, channel, cursor: subscription.cursor })\n", '')
    ],
    test: 'test/events/stream.test.ts'
  }
]

export const testedGuards: TestedGuard[] = [...orderGuards, ...eventGuards]

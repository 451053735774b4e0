// 1 Overview: how the service is doing at a glance, the last half hour minute by minute.
import {
  type LedgerSummary,
  type Minute,
  type PhaseCount,
  readLedger,
  readMinutes,
  readPhaseCounts
} from '../../db/platform/console.ts'
import { type Halt, listHalts } from '../../db/platform/halts.ts'
import { type QueueDepth, readQueueDepths } from '../../db/platform/queue-depths.ts'
import { age, cut, fit, sparkline, type Tone, tones, usd, widthOf, wrap } from './text.ts'
import type { View } from './view.ts'

interface Overview {
  /** In which minute it was read. */
  minute: number
  minutes: Minute[]
  phases: PhaseCount[]
  queues: QueueDepth[]
  ledger: LedgerSummary
  halts: Halt[]
}

const WINDOW_MINUTES = 30
const COUNTED_AGAIN = 3

export const overview: View<Overview> = {
  name: 'Overview',

  async read(trx, _place, { before }) {
    const now = thisMinute()
    // A minute that has passed hardly changes any more: only the last three are counted again, and those since the previous read.
    const uncounted = before ? COUNTED_AGAIN + Math.max(0, now - before.minute) / 60 : WINDOW_MINUTES
    const fresh = await readMinutes(trx, Math.min(uncounted, WINDOW_MINUTES))
    const known = new Map(before?.minutes.map(minute => [minute.at, minute]))
    for (const minute of fresh) known.set(minute.at, minute)
    return {
      minute: now,
      minutes: [...known.values()].filter(({ at }) => at > now - WINDOW_MINUTES * 60).sort((a, b) => a.at - b.at),
      phases: await readPhaseCounts(trx),
      queues: await readQueueDepths(trx),
      ledger: await readLedger(trx),
      halts: await listHalts(trx)
    }
  },

  draw({ minutes, phases, queues, ledger, halts }, _place, { columns }) {
    const series = everyMinute(minutes)
    const latest = series.at(-2) ?? series.at(-1)
    const of = (phase: string) => phases.find(each => each.phase === phase)
    const [unproven, queued, sending, review, open] = ['unproven', 'queued', 'sending', 'review', 'open'].map(of)
    const inDoubt = (sending?.count ?? 0) + (review?.count ?? 0)
    const oldest = Math.max(sending?.oldestSeconds ?? 0, review?.oldestSeconds ?? 0)
    const sum = (field: 'waiting' | 'active' | 'deadLetters') =>
      queues.reduce((total, queue) => total + queue[field], 0)
    const totals = [sumOf(series, 'placed'), sumOf(series, 'failed')] as const
    const times = series.map(({ brokerMs }) => brokerMs)

    const row = (label: string, text: string, tone?: Tone) => {
      const shown = cut(text, columns - LABEL)
      return fit(label, LABEL) + (tone ? tone(shown) : shown)
    }
    const graph = (label: string, values: (number | null)[], now: string, whole: string, tone: Tone) =>
      fit(label, LABEL) + tone(sparkline(values)) + cut(`  ${fit(now, 12)} ${whole}`, columns - LABEL - WINDOW_MINUTES)
    const alarm = (wrong: boolean) => (wrong ? tones.bad : tones.good)

    const busy = queues.filter(({ waiting, active, deferred }) => waiting + active + deferred > 0)
    const dead = queues.filter(({ deadLetters }) => deadLetters > 0)
    const lines = [
      tones.title(`Last ${WINDOW_MINUTES} minutes`),
      graph('Orders', pick(series, 'placed'), `${latest?.placed ?? 0} /min`, `${totals[0]} in all`, tones.link),
      graph('Failed', pick(series, 'failed'), `${latest?.failed ?? 0} /min`, failedShare(totals), failTone(totals[1])),
      graph('Broker p50', times, milliseconds(lastKnown(times)), 'sent to response', tones.quiet),
      '',
      tones.title('Orders now'),
      ...placingTexts(halts, columns - LABEL).map((text, i) =>
        row(i === 0 ? 'Placing' : '', text, alarm(halts.length > 0))
      ),
      // They wait for the broker to accept a token, and are queued then.
      ...(unproven && unproven.count > 0 ? [row('Unproven', withAge(unproven))] : []),
      row('Queued', withAge(queued)),
      row('Open', `${open?.count ?? 0}${waiting(open?.decisions)}`, open?.decisions ? tones.bad : undefined),
      row('In doubt', doubtText(inDoubt, oldest, review?.count), alarm((review?.count ?? 0) > 0)),
      '',
      tones.title('Queues'),
      row('Jobs', `${sum('waiting')} waiting, ${sum('active')} active`),
      ...(busy.length > 0 ? [row('Busiest', busiest(busy))] : []),
      row(
        'Dead letters',
        dead.length === 0 ? 'none' : dead.map(({ queue, deadLetters }) => `${queue} ${deadLetters}`).join(', '),
        alarm(dead.length > 0)
      ),
      '',
      tones.title('Money'),
      row('Wallets', `${usd(ledger.heldUsd)} USD in ${ledger.wallets}`),
      row(
        'Below zero',
        ledger.negativeWallets === 0 ? 'none' : `${ledger.negativeWallets} wallets`,
        alarm(ledger.negativeWallets > 0)
      ),
      row(
        'Ledger drift',
        Number(ledger.driftUsd) === 0 ? '0.00 USD' : `${usd(ledger.driftUsd)} USD: run operator ledger verify`,
        alarm(Number(ledger.driftUsd) !== 0)
      )
    ]
    return { head: [], lines: lines.map((text, i) => ({ text, id: String(i) })), plain: true }
  },

  actions: () => []
}

const LABEL = 14
/** Lines of a halt's reason, at most. */
const REASON_LINES = 4

function thisMinute(): number {
  return Math.floor(Date.now() / 60_000) * 60
}

/** One entry a minute, also where nothing happened. */
function everyMinute(known: Minute[]): Minute[] {
  const byMinute = new Map(known.map(minute => [minute.at, minute]))
  const last = Math.max(thisMinute(), known.at(-1)?.at ?? 0)
  return Array.from({ length: WINDOW_MINUTES }, (_, i) => {
    const at = last - (WINDOW_MINUTES - 1 - i) * 60
    return byMinute.get(at) ?? { at, placed: 0, failed: 0, brokerMs: null }
  })
}

function pick(series: Minute[], field: 'placed' | 'failed'): number[] {
  return series.map(minute => minute[field])
}

function sumOf(series: Minute[], field: 'placed' | 'failed'): number {
  return pick(series, field).reduce((sum, value) => sum + value, 0)
}

function lastKnown(values: (number | null)[]): number | null {
  return values.findLast(value => value !== null) ?? null
}

function milliseconds(ms: number | null): string {
  return ms === null ? '–' : `${Math.round(ms)} ms`
}

function failedShare([placed, failed]: readonly [number, number]): string {
  return placed === 0 ? `${failed} in all` : `${failed} in all, ${((100 * failed) / placed).toFixed(1)} %`
}

function failTone(failed: number): Tone {
  return failed > 0 ? tones.warn : tones.good
}

/** What is halted and why; where one line is too narrow, the id gets a line of its own, so that it can be copied. */
function placingTexts(halts: Halt[], width: number): string[] {
  const [first, ...others] = halts
  if (!first) return ['goes on']
  const more = others.length > 0 ? [`and ${others.length} more: operator trading status`] : []
  const reason = [first.reason, ...more].join(', ')
  const whole = `HALTED for ${first.subject === null ? 'everybody' : `${first.scope} ${first.subject}`}: ${reason}`
  if (widthOf(whole) <= width || first.subject === null) return wrap(whole, width, REASON_LINES)
  return [`HALTED for ${first.scope}`, first.subject, ...wrap(reason, width, REASON_LINES)]
}

function withAge(orders: PhaseCount | undefined): string {
  if (!orders || orders.count === 0) return '0'
  return `${orders.count}, the oldest for ${age(orders.oldestSeconds)}`
}

function doubtText(count: number, oldestSeconds: number, reviews: number | undefined): string {
  return count === 0 ? 'none' : `${count}, the oldest for ${age(oldestSeconds)}${waiting(reviews)}`
}

/** How many of the orders of a line the operator has to decide on; nothing for none. */
function waiting(decisions = 0): string {
  return decisions > 0 ? `; ${decisions} wait for your decision` : ''
}

function busiest(queues: QueueDepth[]): string {
  return queues
    .toSorted((a, b) => b.waiting + b.active - (a.waiting + a.active))
    .map(
      ({ queue, waiting, active, deferred }) => `${queue} ${waiting + active}${deferred ? ` (+${deferred} later)` : ''}`
    )
    .join(', ')
}

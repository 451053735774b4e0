// What the database, the logs and the clients noted while the run went on: every step of every order, for the trace of
// whatever is wrong and for the figures of those in doubt.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import type { ChaosLoad, OrderLife } from './load.ts'
import type { ChaosStack } from './stack.ts'

/** Something an auditor found wrong. */
export interface TracedViolation {
  what: string
  orderId: string | null
  contractId: string | null
}

/** Orders in doubt and decided, by what became of them, and how long that took from `sent_at`. */
export type Doubts = Record<'all' | 'found' | 'absent' | 'review', DoubtWaits>

interface DoubtWaits {
  count: number
  p50Ms: number
  p99Ms: number
  maxMs: number
}

/** An order counts as in doubt when nobody had decided it by the time its reconciliation was due. */
export async function doubts(db: Db): Promise<Doubts> {
  const found = await rows<DoubtWaits & { fate: keyof Doubts }>(
    db,
    `with steps as (
       select phase, sent_at, resolve_at, lead(at) over next as decided_at, lead(phase) over next as decided
         from chaos_steps window next as (partition by order_id order by id)
     ), waits as (
       select extract(epoch from decided_at - sent_at)::float8 * 1000 as ms,
              case decided when 'failed' then 'absent' when 'review' then 'review' else 'found' end as fate
         from steps where phase = 'sending' and decided_at >= resolve_at
     )
     select coalesce(fate, 'all') as fate, count(*)::int as count, max(ms) as "maxMs",
            percentile_cont(0.5) within group (order by ms) as "p50Ms", percentile_cont(0.99) within group (order by ms) as "p99Ms"
       from waits group by grouping sets ((fate), ())`
  )
  const none: DoubtWaits = { count: 0, p50Ms: 0, p99Ms: 0, maxMs: 0 }
  const byFate: Doubts = { all: none, found: none, absent: none, review: none }
  for (const { fate, count, p50Ms, p99Ms, maxMs } of found)
    if (count > 0)
      byFate[fate] = { count, p50Ms: Math.round(p50Ms), p99Ms: Math.round(p99Ms), maxMs: Math.round(maxMs) }
  return byFate
}

/** The figures in words. */
export function describeDoubts(doubts: Doubts): string {
  return Object.entries(doubts)
    .filter(([, { count }]) => count > 0)
    .map(([fate, { count, p50Ms, p99Ms, maxMs }]) => `${fate} ${count} (p50 ${p50Ms}, p99 ${p99Ms}, most ${maxMs} ms)`)
    .join(', ')
}

/** Who sent orders of an account in the minute before a moment, and when. */
export async function sendersBefore(
  db: Db,
  { accountId, at }: { accountId: string; at: Date }
): Promise<{ sender: string; sentAt: Date }[]> {
  return rows(
    db,
    `select s.sender, s.sent_at as "sentAt" from chaos_steps s join orders o on o.id = s.order_id
      where o.account_id = :accountId and s.phase = 'sending' and s.sent_at between :at::timestamptz - interval '1 minute' and :at`,
    { accountId, at }
  )
}

/** Everything that is known of an order or a contract. */
export async function trace(
  stack: ChaosStack,
  load: ChaosLoad,
  about: TracedViolation & { faults: { at: Date; what: string }[]; ledger: LedgerEntry[] }
): Promise<string> {
  const { db, logs } = stack
  const lines: string[] = [`== ${about.what} (order ${about.orderId ?? '-'}, contract ${about.contractId ?? '-'})`]
  const contract = about.ledger.find(({ contractId }) => String(contractId) === about.contractId)
  const [order] = about.orderId
    ? await rows<Record<string, unknown>>(db, 'select * from orders where id = :id', { id: about.orderId })
    : []
  if (order) lines.push(`row: ${JSON.stringify(order, (_, value) => value ?? undefined)}`)
  const account = (order?.account_id as string | undefined) ?? contract?.loginid
  for (const entry of about.ledger.filter(
    each => each === contract || String(each.contractId) === order?.broker_order_id
  ))
    lines.push(`ledger: ${new Date(entry.boughtAtMs).toISOString()} ${JSON.stringify(entry)}`)
  const life = load.lives.find(each =>
    order
      ? each.body.clientOrderId === order.client_order_id
      : each.orderId !== undefined && each.orderId === about.orderId
  )
  if (life) lines.push(...linesOf(life))
  // The account's orders around the moment: one of them may be the contract's owner.
  const moment = contract ? new Date(contract.boughtAtMs) : undefined
  const steps = await rows<Record<string, unknown> & { at: Date }>(
    db,
    `select s.* from chaos_steps s join orders o on o.id = s.order_id
      where (s.order_id = :id or (o.account_id = :account and s.at between :from and :to)) order by s.id limit 200`,
    {
      id: about.orderId ?? '',
      account: moment ? (account ?? '') : '',
      from: new Date((moment?.getTime() ?? 0) - 15_000),
      to: new Date((moment?.getTime() ?? 0) + 15_000)
    }
  )
  for (const { at, id, ...step } of steps)
    lines.push(`step: ${at.toISOString()} ${JSON.stringify(step, (_, value) => value ?? undefined)}`)
  const ids = [
    ...new Set([about.orderId, about.contractId, order?.broker_order_id as string].filter(Boolean))
  ] as string[]
  for (const name of ids.length > 0 ? await readdir(logs) : [])
    for (const line of (await readFile(join(logs, name), 'utf8')).split('\n'))
      if (ids.some(id => line.includes(id))) lines.push(`${name}: ${line.slice(0, 600)}`)
  const times = steps.map(({ at }) => at.getTime())
  const [from, to] = [Math.min(...times) - 2000, Math.max(...times) + 2000]
  for (const { at, what } of about.faults)
    if (at.getTime() >= from && at.getTime() <= to) lines.push(`fault: ${at.toISOString()} ${what}`)
  return lines.join('\n')
}

function linesOf({ body, tries, end, log }: OrderLife): string[] {
  return [`client: ${JSON.stringify(body)}, ${tries} tries, ${end}`, ...log.map(line => `client: ${line}`)]
}

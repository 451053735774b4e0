// What a customer would hold against a year of billing: every line explained, nothing charged twice, nothing for time in
// which it was locked out, nothing for a retired bot, and suspensions added to what was paid.

import { listStatement, type StatementEntry } from '../../db/money/wallets.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Life, Year, YearSpan } from './year.ts'

/** What is wrong, in words; empty when nothing is. */
export async function auditYear(db: Db, { lives, retired }: Year): Promise<{ broken: string[]; lines: number }> {
  const broken: string[] = []
  let lines = 0
  for (const life of lives) {
    const entries = await wholeStatement(db, life.partnerId)
    lines += entries.length
    const complain = (what: string, { reference }: StatementEntry) =>
      void broken.push(`${life.partnerId}: ${what}: ${reference}`)
    const charges = entries.filter(({ kind }) => ['plan_fee', 'plan_upgrade', 'subscription'].includes(kind))
    for (const entry of entries) if (!isExplained(entry)) complain('no line a customer can read', entry)
    for (const charge of charges) {
      const { start } = timeOf(charge)
      if (life.lockedOut.some(span => contains(span, start))) complain('charged for time locked out', charge)
      const bot = botOf(charge)
      if (bot && retired.get(bot)?.some(span => contains(span, start))) complain('charged for a retired bot', charge)
    }
    for (const paid of bySubject(charges)) {
      for (const [index, charge] of paid.entries()) {
        const next = paid[index + 1]
        if (next && timeOf(next).start < paidUntil(charge, life)) complain('charged twice for a time', next)
      }
    }
  }
  return { broken, lines }
}

async function wholeStatement(db: Db, partnerId: string): Promise<StatementEntry[]> {
  const entries: StatementEntry[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await listStatement(db, { partnerId, limit: 200, ...(cursor === undefined ? {} : { cursor }) })
    entries.push(...page.data)
    if (page.nextCursor === null) return entries
    cursor = page.nextCursor
  }
}

function isExplained({ kind, explained }: StatementEntry): boolean {
  const { description, periodStart, periodEnd } = explained
  if (/null|undefined|unknown|\?/.test(description)) return false
  if (kind === 'topup') return description.startsWith('Paid in')
  return periodStart !== null && periodEnd !== null && description.includes(periodStart.slice(0, 10))
}

function timeOf({ explained }: StatementEntry): { start: Date; end: Date } {
  return { start: new Date(explained.periodStart ?? Number.NaN), end: new Date(explained.periodEnd ?? Number.NaN) }
}

const contains = ({ from, to }: YearSpan, at: Date) => at >= from && (to === null || at < to)

function botOf({ kind, explained }: StatementEntry): string | undefined {
  return kind === 'subscription' ? /bot_[0-9a-z]+/.exec(explained.description)?.[0] : undefined
}

/** The plan's fees, and each subscription's months, oldest first. An upgrade is the difference for time that a fee paid. */
function bySubject(charges: StatementEntry[]): StatementEntry[][] {
  const subjects = new Map<string, StatementEntry[]>()
  for (const charge of charges) {
    if (charge.kind === 'plan_upgrade') continue
    const subject = charge.kind === 'plan_fee' ? 'plan' : (charge.reference.split(':')[1] as string)
    subjects.set(subject, [...(subjects.get(subject) ?? []), charge])
  }
  return [...subjects.values()].map(list => list.sort((a, b) => +timeOf(a).start - +timeOf(b).start))
}

/** Until when a charge paid: its end, later by the suspensions that began before it. */
function paidUntil(charge: StatementEntry, { suspended }: Life): Date {
  const { start, end } = timeOf(charge)
  let until = end
  for (const { from, to } of suspended)
    if (from >= start && from < until && to !== null) until = new Date(+until + (+to - +from))
  return until
}

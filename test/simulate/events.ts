// The event log against the orders as they ended: nothing missing, nothing invented, in order, positions without gaps. It reads
// the rows alone.

/** An event of the log, or of the outbox, which follows: without a position. */
export interface LoggedEvent {
  partner_id: string
  position: number | null
  type: string
  subject: string
}

/** Events in the order of the log, then those that are not in it yet. */
export const LOGGED = `select partner_id, position, type, subject from (
    select partner_id, position, 0 as id, type, subject from events
    union all select partner_id, null, id, type, subject from event_outbox) logged
  order by position nulls last, id`

const LETTERS: Record<string, string> = {
  'order.opened': 'O',
  'order.closed': 'C',
  'order.failed': 'F',
  'order.review': 'R'
}

/** What an order's events must be, by the phase it ended in: one letter an event. */
const RIGHT: Record<string, RegExp> = {
  closed: /^[FR]*OR*C$/,
  open: /^[FR]*OR*$/,
  failed: /^[FR]*F$/,
  review: /^[FR]*R$/,
  unproven: /^F*$/,
  queued: /^F*$/,
  sending: /^F*$/
}

/** What the log has that is not so, and what it lacks; a sentence each. */
export function* eventViolations(
  events: readonly LoggedEvent[],
  orders: readonly { id: string; phase: string }[]
): Iterable<string> {
  const newest = new Map<string, number>()
  const lettersBySubject = new Map<string, string>()
  for (const { partner_id, position, type, subject } of events) {
    if (position !== null) {
      const expected = (newest.get(partner_id) ?? 0) + 1
      if (position !== expected) yield `${partner_id} has an event at ${position} where ${expected} was next`
      newest.set(partner_id, position)
    }
    const letter = LETTERS[type]
    if (letter) lettersBySubject.set(subject, (lettersBySubject.get(subject) ?? '') + letter)
  }
  for (const { id, phase } of orders) {
    const letters = lettersBySubject.get(id) ?? ''
    lettersBySubject.delete(id)
    if (!RIGHT[phase]?.test(letters)) yield `${id} is ${phase}, and its events say ${letters || 'nothing'}`
  }
  for (const [id, letters] of lettersBySubject) yield `the events ${letters} are of no order: ${id}`
}

// The judge of simulations finds what would be wrong with an event log.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { eventViolations, type LoggedEvent } from '../simulate/events.ts'

const log = (...entries: [position: number | null, type: string, subject?: string][]): LoggedEvent[] =>
  entries.map(([position, type, subject = 'a']) => ({ partner_id: 'p', position, type: `order.${type}`, subject }))
const violations = (events: LoggedEvent[], phase: string) => [...eventViolations(events, [{ id: 'a', phase }])].length

const judging = suite('the judge of the event log')

judging('finds nothing in logs that are right', () => {
  assert.is(violations(log([1, 'opened'], [2, 'closed']), 'closed'), 0)
  assert.is(violations(log([1, 'failed'], [2, 'failed'], [3, 'opened'], [null, 'closed']), 'closed'), 0)
  assert.is(violations(log([1, 'review'], [2, 'failed']), 'failed'), 0)
  assert.is(violations(log([1, 'failed']), 'sending'), 0)
  assert.is(violations(log(), 'queued'), 0)
})

judging('finds gaps, what is missing, doubled, invented, and out of order', () => {
  assert.is(violations(log([1, 'opened'], [3, 'closed']), 'closed'), 1)
  assert.is(violations(log([1, 'opened'], [1, 'closed']), 'closed'), 1)
  assert.is(violations(log([1, 'opened']), 'closed'), 1)
  assert.is(violations(log([1, 'closed']), 'closed'), 1)
  assert.is(violations(log(), 'failed'), 1)
  assert.is(violations(log([1, 'opened'], [2, 'opened'], [3, 'closed']), 'closed'), 1)
  assert.is(violations(log([1, 'closed'], [2, 'opened']), 'closed'), 1)
  assert.is(violations(log([1, 'opened']), 'queued'), 1)
  assert.is(violations(log([1, 'opened', 'b']), 'queued'), 1)
})

judging.run()

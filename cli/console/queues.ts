// 5 Queues: what waits for the workers, what they work on, and what they gave up.
import { countFailedJobs } from '../../db/platform/console.ts'
import { type QueueDepth, readQueueDepths } from '../../db/platform/queue-depths.ts'
import type { QueueName } from '../../schemas/jobs.ts'
import { retry } from '../platform/queues.ts'
import { age, type Column, columns, tones } from './text.ts'
import { MARK, type View } from './view.ts'

interface QueueLine extends QueueDepth {
  failed: number
}

const count = (title: string, of: (line: QueueLine) => number, bad = false): Column<QueueLine> => ({
  title,
  width: 8,
  right: true,
  of: line => String(of(line)),
  tone: line => (of(line) === 0 ? tones.quiet : bad ? tones.bad : undefined)
})

const all: Column<QueueLine>[] = [
  { title: 'Queue', width: 16, grow: true, of: line => line.queue },
  count('Waiting', line => line.waiting),
  count('Later', line => line.deferred),
  count('Active', line => line.active),
  count('Failed', line => line.failed),
  count('Dead', line => line.deadLetters, true),
  { title: 'Oldest', width: 11, right: true, of: line => age(oldestOf(line)) },
  { title: 'Active for', width: 11, right: true, from: 110, of: line => age(line.oldestActiveSeconds) },
  { title: 'Dead for', width: 11, right: true, from: 110, of: line => age(line.oldestDeadLetterSeconds) }
]

/** How long the oldest job has waited, else been active, else lain dead. */
function oldestOf(line: QueueLine): number | null {
  return line.oldestWaitingSeconds ?? line.oldestActiveSeconds ?? line.oldestDeadLetterSeconds
}

export const queues: View<QueueLine[]> = {
  name: 'Queues',

  async read(trx) {
    const failed = await countFailedJobs(trx)
    return (await readQueueDepths(trx)).map(depth => ({ ...depth, failed: failed.get(depth.queue) ?? 0 }))
  },

  draw(data, _place, size) {
    const { title, lines } = columns(all, data, size.columns - MARK)
    return {
      head: [`${' '.repeat(MARK)}${title}`],
      lines: lines.map((text, i) => ({ text, id: data[i]?.queue }))
    }
  },

  actions(data, { chosen }) {
    const line = data.find(({ queue }) => queue === chosen)
    if (!line || line.deadLetters === 0) return []
    const queue: QueueName = line.queue
    return [
      {
        key: 'r',
        label: 'retry dead letters',
        press: () => ({
          run: async opened => {
            await opened.confirm(`Put the ${line.deadLetters} dead letters of ${queue} back to work?`)
            const { retried } = await retry(opened, { queue })
            return `${retried} jobs of ${queue} are back at work.`
          }
        })
      }
    ]
  }
}

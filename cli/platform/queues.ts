// operator queues: how much work waits, and dead letters put back to work.
import type { Command } from 'commander'
import { recordAudit } from '../../db/platform/audit.ts'
import { readQueueDepths, retryDeadLetters } from '../../db/platform/queue-depths.ts'
import { QueueRef } from '../../schemas/commands/operator.ts'
import type { QueueName } from '../../schemas/jobs.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { watchable } from '../terminal/watching.ts'

export function addQueues(program: Command): void {
  const queues = program.command('queues').description('Work waiting for the workers: status, retry of dead letters')

  watchable(queues.command('status'))
    .description('Show for each queue what waits, what is being worked on and what has failed for good')
    .addHelpText('after', examples('queues status', 'queues status --json'))
    .action(withStore(async ({ db }) => ({ data: await readQueueDepths(db) })))

  queues
    .command('retry <queue>')
    .description("Put a queue's dead letters back to be tried again, oldest first")
    .addHelpText('after', examples('queues retry template.deploy'))
    .action(withStore(retry, { input: QueueRef, acts: true }))
}

/** Puts a queue's dead letters back to work. */
export async function retry({ db, url, actor }: Opened, { queue }: { queue: QueueName }) {
  return db.transaction(async trx => {
    const retried = await retryDeadLetters(trx, url, queue)
    await recordAudit(trx, { actor, action: 'queues.retry', target: queue, details: { retried } })
    return { queue, retried }
  })
}

// Deletes rows by their age, as the workers' clock starts it. The steps are independent: when one fails, the others still delete
// what may not be kept longer.
import { failStaleDeployments } from '../db/community/templates.ts'
import { deleteOldTickets } from '../db/events/tickets.ts'
import { deleteOldTickWants } from '../db/events/ticks.ts'
import { forgetLeaseHolders } from '../db/orders/leases.ts'
import { keepRequestDays } from '../db/partners/requests.ts'
import { deleteOldSessions } from '../db/partners/sessions.ts'
import { deleteOldUsage } from '../db/partners/usage.ts'
import { deleteOldBrokerRequests } from '../db/platform/broker-requests.ts'
import { forgetCalls } from '../db/platform/call-records.ts'
import { deleteOldKeys } from '../db/platform/idempotency.ts'
import { forgetProcesses } from '../db/platform/processes.ts'
import type { Db } from '../db/postgres/connection.ts'
import { forgetUnowned } from '../db/postgres/lineage.ts'
import { forgetAccountLeases } from '../db/traders/account-leases.ts'
import { deleteOldResets } from '../db/traders/credentials.ts'
import { deleteOldTraderDays } from '../db/traders/days.ts'
import { forgetSenders } from '../db/webhooks/leases.ts'
import { deleteOldTests } from '../db/webhooks/tests.ts'
import { keepEventDays } from './events.ts'
import type { WorkerServices } from './services.ts'
import { keepWebhookDays } from './webhooks/run.ts'

type KeepingServices = Pick<WorkerServices, 'db' | 'config' | 'log'>

const ofDatabase =
  (step: (db: Db) => Promise<unknown>) =>
  ({ db }: KeepingServices): Promise<unknown> =>
    step(db)

/** One after the other, in this order. */
const steps: Record<string, (services: KeepingServices) => Promise<unknown>> = {
  'broker requests': ofDatabase(deleteOldBrokerRequests),
  'lease holders': ofDatabase(forgetLeaseHolders),
  'account leases': ofDatabase(forgetAccountLeases),
  processes: ofDatabase(forgetProcesses),
  calls: ofDatabase(forgetCalls),
  'unowned contracts': ofDatabase(forgetUnowned),
  deployments: ofDatabase(failStaleDeployments),
  sessions: ofDatabase(deleteOldSessions),
  usage: ofDatabase(deleteOldUsage),
  'idempotency keys': ofDatabase(deleteOldKeys),
  'password resets': ofDatabase(deleteOldResets),
  'days of traders': ofDatabase(deleteOldTraderDays),
  events: keepEventDays,
  'attempts of webhooks': keepWebhookDays,
  requests: keepRequestDays,
  'tests of webhooks': ofDatabase(deleteOldTests),
  'senders of webhooks': ofDatabase(forgetSenders),
  'tickets of streams': ofDatabase(deleteOldTickets),
  'wanted ticks': ofDatabase(deleteOldTickWants)
}

/** Deletes what is not kept any more, of every kind. Throws the first failure once all had their turn. */
export async function runHousekeeping(services: KeepingServices): Promise<void> {
  const failures: unknown[] = []
  for (const [kind, step] of Object.entries(steps))
    try {
      await step(services)
    } catch (error) {
      services.log.warn({ err: error, kind }, 'what is not kept any more could not be deleted')
      failures.push(error)
    }
  if (failures.length > 0) throw failures[0]
}

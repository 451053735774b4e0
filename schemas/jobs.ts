// Every queue: its name, the data of a job (ids, never secrets) and how it behaves. A queue either wakes the workers
// when its job is committed ('commit') or is read by the clock ('clock'); none does both. Code that enqueues imports
// this file and never loads the work.
import { idField, type Schema } from './fields/fields.ts'

export interface QueueRule {
  wake: 'commit' | 'clock'
  /** Shape of a job's data; a job that does not match ends in the dead-letter queue (db/platform/queue.ts). */
  data: Schema
  /**
   * Absent where fetching a job completes it: the rows it points to carry the work from then on, so that there is nothing
   * to retry.
   */
  retry?: {
    limit: number
    /** Before the first retry; twice as long before each further one. */
    delaySeconds: number
    /** A job still active after this is taken to have died with its worker, and runs again. */
    expireSeconds: number
  }
  /** For clock queues with a schedule: cron, UTC. */
  cron?: string
}

const only = (properties: Record<string, Schema>) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const

const nothing = { type: ['object', 'null'], additionalProperties: true } as const

const everyMinute = {
  wake: 'clock',
  data: nothing,
  retry: { limit: 1, delaySeconds: 10, expireSeconds: 600 },
  cron: '* * * * *'
} as const

/** Orders stored in one moment share a job, so many at most: enough to make jobs cheap, few enough for workers to share. */
export const ORDERS_A_JOB = 20

export const queues = {
  /** Orders are queued on these broker accounts: buy them. */
  'order.place': {
    wake: 'commit',
    data: {
      anyOf: [
        only({
          accountIds: { type: 'array', minItems: 1, maxItems: ORDERS_A_JOB, items: { type: 'string', minLength: 1 } }
        }),
        // The form that an api of the previous version stores, if it is upgraded after its workers.
        only({ orderId: { type: 'string', minLength: 1 }, accountId: { type: 'string', minLength: 1 } })
      ]
    }
  },
  /** The same for copies: they are bought after what traders themselves ordered. */
  'order.copy': {
    wake: 'commit',
    data: {
      anyOf: [
        only({
          accountIds: { type: 'array', minItems: 1, maxItems: ORDERS_A_JOB, items: { type: 'string', minLength: 1 } }
        }),
        // The form that an api of the previous version stores, if it is upgraded after its workers.
        only({ orderId: { type: 'string', minLength: 1 }, accountId: { type: 'string', minLength: 1 } })
      ]
    }
  },
  /** A caller waits for the broker's response: balance, specification, candles, evidence. */
  ask: {
    wake: 'commit',
    data: only({ brokerRequestId: idField('ask', 'The broker request.') })
  },
  /** A caller wants a contract sold: apart from reads, which must not delay a sale. */
  sell: {
    wake: 'commit',
    data: only({ brokerRequestId: idField('ask', 'The broker request.') })
  },
  /** A site is to be rendered. */
  'template.deploy': {
    wake: 'commit',
    data: only({ deploymentId: idField('dep', 'The deployment.'), revision: { type: 'integer', minimum: 1 } }),
    retry: { limit: 3, delaySeconds: 2, expireSeconds: 60 }
  },
  /** A leader's contract was bought: copy the order to its followers, or to those whose ids are in a range. */
  'copy.fanout': {
    wake: 'commit',
    data: {
      type: 'object',
      additionalProperties: false,
      required: ['orderId'],
      properties: {
        orderId: idField('ord', "The leader's order."),
        after: idField('fol', 'Only follows after this one.'),
        upTo: idField('fol', 'Only follows up to this one.')
      }
    },
    retry: { limit: 5, delaySeconds: 1, expireSeconds: 60 }
  },
  /** A leader's contract was closed early: close its copies, of follows after one. */
  'copy.close': {
    wake: 'commit',
    data: {
      type: 'object',
      additionalProperties: false,
      required: ['orderId'],
      properties: {
        orderId: idField('ord', "The leader's order."),
        after: idField('fol', 'Only follows after this one.')
      }
    },
    retry: { limit: 5, delaySeconds: 1, expireSeconds: 60 }
  },
  /** A leader's limits were changed at the broker: change those of its copies, of follows after one. */
  'copy.limits': {
    wake: 'commit',
    data: {
      type: 'object',
      additionalProperties: false,
      required: ['orderId'],
      properties: {
        orderId: idField('ord', "The leader's order."),
        after: idField('fol', 'Only follows after this one.')
      }
    },
    retry: { limit: 5, delaySeconds: 1, expireSeconds: 60 }
  },
  /** Each active account's recent contracts are compared with our orders; the period is AUDIT_MINUTES. */
  'orders.audit': { ...everyMinute, retry: { ...everyMinute.retry, delaySeconds: 60 } },
  /** Rows that are not needed any more are deleted. */
  housekeeping: {
    wake: 'clock',
    data: nothing,
    retry: { limit: 1, delaySeconds: 60, expireSeconds: 300 },
    cron: '*/10 * * * *'
  },
  /** Closed orders are added up by trader and day. */
  'trader.days': everyMinute,
  /** Contracts are added up for analytics. */
  analytics: everyMinute,
  /** Samples of these sums are compared with the orders. */
  'analytics.check': {
    wake: 'clock',
    data: nothing,
    retry: { limit: 1, delaySeconds: 60, expireSeconds: 300 },
    cron: '7,22,37,52 * * * *'
  },
  /** Markups are compared with the broker's reports: what is due, every hour. */
  'analytics.reconcile': {
    wake: 'clock',
    data: nothing,
    retry: { limit: 0, delaySeconds: 60, expireSeconds: 1500 },
    cron: '25 * * * *'
  },
  /** Orders that ended ARCHIVE_AFTER_DAYS ago move to the archive. */
  'orders.archive': everyMinute,
  /** Plan fees and subscriptions whose period has ended are charged. */
  'billing.check': everyMinute
} as const satisfies Record<string, QueueRule>

export type QueueName = keyof typeof queues

/** What a job of each queue carries. */
export interface JobData {
  'order.place': { accountIds: string[] }
  'order.copy': { accountIds: string[] }
  ask: { brokerRequestId: string }
  sell: { brokerRequestId: string }
  'template.deploy': { deploymentId: string; revision: number }
  'copy.fanout': { orderId: string; after?: string; upTo?: string }
  'copy.close': { orderId: string; after?: string }
  'copy.limits': { orderId: string; after?: string }
  'orders.audit': object
  housekeeping: object
  'trader.days': object
  analytics: object
  'analytics.check': object
  'analytics.reconcile': object
  'orders.archive': object
  'billing.check': object
}

/** Where jobs of a queue end that failed too often. */
export function deadLetterOf(name: QueueName): string {
  return `${name}.dead`
}

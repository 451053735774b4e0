// The brokers a worker can talk to, one per dialect, made when first needed.
import type { Log } from '../../db/log.ts'
import type { Config } from '../../schemas/config.ts'
import { ConfigError } from '../../schemas/config.ts'
import { createNextBroker } from './next.ts'
import { type Broker, BrokerError } from './port.ts'
import type { Unreachable } from './reachability.ts'
import { createV3Broker } from './v3.ts'

export interface Brokers {
  /** The broker in the dialect stored with a partner or an order. Throws BrokerError where no address was given for it. */
  of(dialect: string): Broker
  /** Tells among how many workers what is granted to this machine's address is divided. */
  share(workers: number): void
  /** What of the brokers cannot be reached right now. */
  unreachable(): Unreachable[]
  /** Fraction of the call budget left, by dialect and class. */
  budget(): Record<string, number>
  close(): Promise<void>
}

const wanted = {
  v3: 'BROKER_URL is required: the WebSocket address of the broker (or run `npm run -s operator -- broker simulate`)',
  next: 'BROKER_NEXT_URL is required where BROKER_DIALECT is next: the REST base of the broker'
} as const

/** Opens no connection yet. Throws ConfigError when the default dialect has no broker. */
export function openBrokers(config: Config, log: Log): Brokers {
  const shared = {
    log,
    answerTimeoutMs: config.brokerAnswerTimeoutMs,
    maxConnections: config.brokerMaxConnections
  }
  const create: Record<string, (() => Broker) | undefined> = {
    v3: config.brokerUrl ? () => createV3Broker({ url: config.brokerUrl as string, ...shared }) : undefined,
    next: config.brokerNext
      ? () => createNextBroker({ ...(config.brokerNext as NonNullable<Config['brokerNext']>), ...shared })
      : undefined
  }
  if (!create[config.brokerDialect]) throw new ConfigError(wanted[config.brokerDialect])
  const open = new Map<string, Broker>()
  let sharing = 1
  return {
    of(dialect) {
      const known = open.get(dialect)
      if (known) return known
      const make = create[dialect]
      if (!make)
        throw new BrokerError('BROKER_UPSTREAM', 'The broker is not configured for this dialect.', {
          brokerCode: 'NotConfigured'
        })
      const broker = make()
      broker.share(sharing)
      open.set(dialect, broker)
      return broker
    },
    share(workers) {
      if (workers === sharing) return
      sharing = workers
      for (const broker of open.values()) broker.share(workers)
    },
    unreachable: () => [...open.values()].flatMap(broker => broker.unreachable()),
    budget() {
      const left: Record<string, number> = {}
      for (const [dialect, broker] of open)
        for (const [name, value] of Object.entries(broker.budget())) left[`${dialect}:${name}`] = value
      return left
    },
    async close() {
      await Promise.allSettled([...open.values()].map(broker => broker.close()))
    }
  }
}

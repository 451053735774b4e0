// The brokers a worker can talk to, one per dialect, made when first needed.
import type { Log } from '../../db/log.ts'
import type { Config } from '../../schemas/config.ts'
import { ConfigError } from '../../schemas/config.ts'
import type { Broker } from './port.ts'
import { createV3Broker } from './v3.ts'

export interface Brokers {
  /** The broker in the dialect stored with a partner or an order. */
  of(dialect: string): Broker
  /** Fraction of the call budget left, by dialect and class. */
  budget(): Record<string, number>
  close(): Promise<void>
}

/** Opens no connection yet. Throws ConfigError when no broker is named. */
export function openBrokers(config: Config, log: Log): Brokers {
  const { brokerUrl } = config
  if (!brokerUrl)
    throw new ConfigError(
      'BROKER_URL is required: the WebSocket address of the broker (or run `npm run -s operator -- broker simulate`)'
    )
  const open = new Map<string, Broker>()
  const create: Record<string, () => Broker> = {
    v3: () =>
      createV3Broker({
        url: brokerUrl,
        log,
        answerTimeoutMs: config.brokerAnswerTimeoutMs,
        maxConnections: config.brokerMaxConnections
      })
  }
  return {
    of(dialect) {
      let broker = open.get(dialect)
      if (!broker) {
        const make = create[dialect]
        if (!make) throw new ConfigError(`BROKER_DIALECT '${dialect}' is not one this worker speaks`)
        broker = make()
        open.set(dialect, broker)
      }
      return broker
    },
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

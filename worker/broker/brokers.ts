// The brokers a worker can talk to, one per dialect, made when first needed.
import type { CallRecords } from '../../db/platform/call-records.ts'
import type { Log } from '../../db/platform/log.ts'
import type { BrokerReach, SeenMarkets } from '../../db/platform/processes.ts'
import type { Config } from '../../schemas/config/config.ts'
import { ConfigError } from '../../schemas/config/config.ts'
import { BrokerError } from './broker-error.ts'
import { createNextBroker } from './dialects/next.ts'
import { createV3Broker } from './dialects/v3.ts'
import type { Broker, Unreachable } from './port.ts'

export interface Brokers {
  /** The broker in the dialect stored with a partner or an order. Throws BrokerError where no address was given for it. */
  of(dialect: string): Broker
  /** Whether an address was given for the dialect. */
  speaks(dialect: string): boolean
  /** The ids of accounts that have a session here. */
  accounts(): string[]
  /** The ids of accounts whose calls are counted here. */
  counted(): string[]
  /**
   * Gives up accounts that other workers are going to serve: publishes what was spent, and closes unused connections.
   */
  leave(accountIds: string[]): Promise<void>
  /** What of the brokers, the test broker aside, cannot be reached right now. */
  unreachable(): Unreachable[]
  /** What this process knows of the broker, in each dialect that an address was given for. */
  reach(): BrokerReach[]
  /** The state of the markets in each dialect's last list of symbols, the test broker's aside. */
  seenMarkets(): SeenMarkets[]
  /** Fraction of the call budget left, by dialect and class, the test broker's aside: no limit of the real one. */
  budget(): Record<string, number>
  close(): Promise<void>
}

const wanted = {
  v3: 'BROKER_URL is required: the WebSocket address of the broker (or run `npm run -s operator -- broker simulate`)',
  next: 'BROKER_NEXT_URL is required where BROKER_DIALECT is next: the REST base of the broker'
} as const

/**
 * Opens no connection yet. With `records`, quotas are shared with all processes that record their calls. `testBroker` is the one
 * that workers run for test keys, used unless TEST_BROKER_URL names another. Throws ConfigError when the default dialect has no
 * broker.
 */
export function openBrokers(
  config: Config,
  log: Log,
  { records, testBroker }: { records?: CallRecords; testBroker?: { url(): string } | undefined } = {}
): Brokers {
  const shared = {
    log,
    records,
    responseTimeoutMs: config.brokerAnswerTimeoutMs,
    maxConnections: config.brokerMaxConnections
  }
  const testUrl = config.testBrokerUrl ?? testBroker?.url
  const create: Record<string, (() => Broker) | undefined> = {
    v3: config.brokerUrl ? () => createV3Broker({ url: config.brokerUrl as string, ...shared }) : undefined,
    next: config.brokerNext
      ? () => createNextBroker({ ...(config.brokerNext as NonNullable<Config['brokerNext']>), ...shared })
      : undefined,
    // A simulated broker, in the first dialect; its calls are no part of the real broker's quotas.
    test: testUrl
      ? () => createV3Broker({ ...shared, what: 'the test broker', url: testUrl, records: undefined })
      : undefined
  }
  if (!create[config.brokerDialect]) throw new ConfigError(wanted[config.brokerDialect])
  const open = new Map<string, Broker>()
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
      open.set(dialect, broker)
      return broker
    },
    speaks: dialect => create[dialect] !== undefined,
    accounts: () => [...open.values()].flatMap(broker => broker.accounts()),
    counted: () => [...open.values()].flatMap(broker => broker.counted()),
    async leave(accountIds) {
      await Promise.all([...open.values()].map(broker => broker.leave(accountIds)))
    },
    // A worker that cannot reach the test broker is ready all the same.
    unreachable: () => [...open].flatMap(([dialect, broker]) => (dialect === 'test' ? [] : broker.unreachable())),
    reach: () => Object.keys(create).flatMap(dialect => (create[dialect] ? reachOf(dialect, open.get(dialect)) : [])),
    seenMarkets: () =>
      [...open].flatMap(([dialect, broker]) => {
        const seen = dialect === 'test' ? null : broker.lastSymbols()
        if (!seen) return []
        const isOpen = seen.symbols.filter(({ open, suspended }) => open && !suspended).length
        return [{ open: isOpen, closed: seen.symbols.length - isOpen, seconds: secondsSince(seen.at) }]
      }),
    budget() {
      const left: Record<string, number> = {}
      for (const [dialect, broker] of open) {
        if (dialect === 'test') continue
        for (const [name, value] of Object.entries(broker.budget())) left[`${dialect}:${name}`] = value
      }
      return left
    },
    async close() {
      await Promise.allSettled([...open.values()].map(broker => broker.close()))
    }
  }
}

function reachOf(dialect: string, broker: Broker | undefined): BrokerReach {
  const none = { dialect, address: null, cause: null, seconds: null }
  const [down] = broker?.unreachable() ?? []
  if (down)
    return { dialect, state: 'UNREACHABLE', address: down.what, cause: down.cause, seconds: secondsSince(down.since) }
  const reachedAt = broker?.reachedAt() ?? null
  return reachedAt === null
    ? { ...none, state: 'UNTRIED' }
    : { ...none, state: 'REACHED', seconds: secondsSince(reachedAt) }
}

const secondsSince = (ms: number) => Math.max(0, Math.round((Date.now() - ms) / 1000))

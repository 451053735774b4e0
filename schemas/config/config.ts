// The environment: every setting, its default, its limits. Read once by each main file; a wrong value
// stops the process with a line that names the variable.

import { distance } from 'fastest-levenshtein'
import { check } from '../checks/validator.ts'
import { ApiError } from '../errors/errors.ts'
import type { Schema } from '../fields/fields.ts'
import { usd } from '../fields/money.ts'

const int = (description: string, value: number, minimum = 0, maximum = 2 ** 31 - 1) =>
  ({ type: 'integer', minimum, maximum, default: value, description }) as const
/** Days after which an order that ended may move to the archive at the earliest: sums of 31 days and what is copied read live orders alone. */
export const ARCHIVE_LEAST_DAYS = 40

/** Text, for a number would not do: few prices with cents are multiples of 0.01 as floats. */
const price = (value: string) =>
  ({ type: 'string', pattern: '^\\d{1,10}(\\.\\d{1,2})?$', default: value, description: 'USD a month' }) as const

const text = (description: string) => ({ type: 'string', minLength: 1, maxLength: 2000, description }) as const

/** The settings in the environment; README.md describes the same. */
export const environment = {
  type: 'object',
  properties: {
    DATABASE_URL: { ...text('PostgreSQL 15 or later; unset: the embedded one'), pattern: '^postgres(ql)?://' },
    DATABASE_READ_URL: {
      ...text('a standby of it that serves lists, leaderboards and analytics; unset: the primary does'),
      pattern: '^postgres(ql)?://'
    },
    READ_WAIT_MS: int('how long such a read waits for the standby before the primary serves it', 100, 1, 10_000),
    REDIS_URL: {
      ...text('Redis for several machines; unset: in-process limits, PostgreSQL wake-ups'),
      pattern: '^rediss?://'
    },
    DATA_DIR: { ...text('where the embedded database and the generated token keys live'), default: '.data' },
    DATABASE_POOL: int('connections each process may hold', 10, 2, 200),
    HOST: { ...text("the API's address"), default: '127.0.0.1' },
    PORT: int("the API's port", 8080, 0, 65535),
    BASE_URL: {
      ...text('the public address shown in the description and in site addresses'),
      pattern: '^https?://[^/]+'
    },
    TLS_CERT: text('file of the certificate chain (PEM)'),
    TLS_KEY: text('file of the private key (PEM)'),
    TRUST_PROXY: int('how many proxies in front are believed', 0, 0, 10),
    BROKER_URL: { ...text("the broker's WebSocket address"), pattern: '^wss?://' },
    TEST_BROKER_URL: { ...text('a simulated broker for test keys, as BROKER_URL'), pattern: '^wss?://' },
    TEST_BROKER_HOST: {
      ...text('the address at which the worker that runs the test broker listens, and the others reach it'),
      default: '127.0.0.1'
    },
    BROKER_DIALECT: {
      type: 'string',
      enum: ['v3', 'next'],
      default: 'v3',
      description: 'the protocol new partners speak with the broker'
    },
    BROKER_NEXT_URL: { ...text("the REST base of the broker's newer protocol"), pattern: '^https?://[^/]+' },
    BROKER_NEXT_AUTH_URL: {
      ...text('where that protocol renews tokens that expire; the REST base unless given'),
      pattern: '^https?://[^/]+'
    },
    BROKER_NEXT_APP_HEADER: {
      ...text('the HTTP header in which that protocol carries the application id; its documents name it'),
      pattern: '^[A-Za-z0-9-]{1,64}$'
    },
    BROKER_NEXT_CALLS: int(
      "REST calls a minute the newer protocol's broker grants this machine's address",
      300,
      1,
      1_000_000
    ),
    BROKER_ANSWER_TIMEOUT_MS: int('how long a broker call is waited for', 20_000, 100, 120_000),
    BROKER_MAX_CONNECTIONS: int('broker connections a worker may hold', 2000, 1, 100_000),
    TOKEN_KEYS: {
      ...text('id:base64key[,id:base64key…], 32 bytes each; the first encrypts'),
      pattern: '^[A-Za-z0-9_.-]{1,32}:[A-Za-z0-9+/]{43}=(,[A-Za-z0-9_.-]{1,32}:[A-Za-z0-9+/]{43}=)*$'
    },
    RATE_LIMIT_LAUNCH: int('calls a minute of a LAUNCH key', 600, 1),
    RATE_LIMIT_PRO: int('calls a minute of a PRO key', 3000, 1),
    RATE_LIMIT_SCALE: int('calls a minute of a SCALE key', 12000, 1),
    RATE_LIMIT_TRADER: int('calls a minute that name one trader', 120, 1),
    PLAN_PRICE_LAUNCH: price('49'),
    PLAN_PRICE_PRO: price('199'),
    PLAN_PRICE_SCALE: price('799'),
    MARKETPLACE_FEE_PCT: {
      type: 'number',
      minimum: 0,
      maximum: 100,
      default: 20,
      description: "the platform's share of a sale"
    },
    SESSION_COOKIE_DOMAIN: {
      ...text('cookie domain, so that subdomains share the session'),
      pattern: '^\\.?[A-Za-z0-9.-]+$'
    },
    SESSION_TTL_HOURS: int('life of a session', 12, 1, 8760),
    ORDER_TTL_MS: int('how long an order may wait to be placed', 10_000, 100, 300_000),
    SETTLE_WAIT_MS: int('how long a request waits for settlement', 120_000, 100, 300_000),
    PERMIT_MS: int('how long after its commit an order may still be sent', 3000, 50, 60_000),
    RECONCILE_AFTER_MS: int(
      "the broker's own time-out: from then on an order without a response is looked up",
      20_000,
      100,
      600_000
    ),
    RECONCILE_CRASHED_MS: int(
      'how long what a worker that died had written may still reach the broker',
      120_000,
      100,
      3_600_000
    ),
    LEASE_MS: int('how long a worker holds an open order without renewing', 15_000, 300, 600_000),
    SWEEP_MS: int('how often a worker looks for orders nobody moves on', 1000, 50, 60_000),
    AUDIT_MINUTES: int("how often accounts are compared with the broker's books", 15, 1, 1440),
    STREAM_URL: {
      ...text('the public address of the stream, without /v1/stream; BASE_URL with ws or wss unless given'),
      pattern: '^wss?://[^/]+'
    },
    EVENT_DAYS: int('for how many days events are kept', 30, 1, 366),
    REQUEST_DAYS: int('for how many days the request log is kept; 0: there is none', 7, 0, 31),
    ARCHIVE_AFTER_DAYS: int(
      'days after which orders that ended move to the archive; 0: never, else 40 at least',
      400,
      0,
      3660
    ),
    WEBHOOK_ALLOW_PRIVATE: int('1: webhooks may go to http and private addresses; for development alone', 0, 0, 1),
    METRICS_PORT: int('Prometheus metrics, /healthz and /readyz', 0, 0, 65535),
    METRICS_HOST: { ...text('address of the metrics port'), default: '127.0.0.1' },
    AI_BASE_URL: { ...text('an OpenAI-compatible server'), pattern: '^https?://' },
    AI_API_KEY: text('its key'),
    AI_MODEL: text('its model'),
    OPERATOR_NAME: {
      ...text("who acts by the operator's tool, for the audit log"),
      maxLength: 64,
      pattern: '^[^\\p{C}]+$'
    },
    LOG_LEVEL: {
      type: 'string',
      enum: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'],
      default: 'info',
      description: 'JSON lines on stdout, pretty on a terminal'
    }
  }
} as const

/** Settings that have no effect without another one. */
const needed: [keyof typeof environment.properties, keyof typeof environment.properties][] = [
  ['DATABASE_READ_URL', 'DATABASE_URL'],
  ['TLS_CERT', 'TLS_KEY'],
  ['TLS_KEY', 'TLS_CERT'],
  ['AI_API_KEY', 'AI_BASE_URL'],
  ['AI_MODEL', 'AI_BASE_URL'],
  ['BROKER_NEXT_URL', 'BROKER_NEXT_APP_HEADER'],
  ['BROKER_NEXT_APP_HEADER', 'BROKER_NEXT_URL'],
  ['BROKER_NEXT_AUTH_URL', 'BROKER_NEXT_URL']
]

/** Settings that are whole addresses. That of PostgreSQL has forms of its own, and reaching it names what is wrong with it. */
const addresses = [
  'REDIS_URL',
  'BASE_URL',
  'STREAM_URL',
  'BROKER_URL',
  'TEST_BROKER_URL',
  'BROKER_NEXT_URL',
  'BROKER_NEXT_AUTH_URL',
  'AI_BASE_URL'
] as const satisfies (keyof typeof environment.properties)[]

export interface Config {
  databaseUrl: string | undefined
  databasePool: number
  databaseReadUrl: string | undefined
  readWaitMs: number
  redisUrl: string | undefined
  dataDir: string
  host: string
  port: number
  /** Without a trailing slash. */
  baseUrl: string
  tls: { cert: string; key: string } | undefined
  trustProxy: number
  brokerUrl: string | undefined
  testBrokerUrl: string | undefined
  testBrokerHost: string
  brokerDialect: 'v3' | 'next'
  /** The newer API's REST base, without a trailing slash. */
  brokerNext: { url: string; authUrl: string; appIdHeader: string; callsPerMinute: number } | undefined
  brokerAnswerTimeoutMs: number
  brokerMaxConnections: number
  tokenKeys: string | undefined
  rateLimits: { LAUNCH: number; PRO: number; SCALE: number; trader: number }
  planPrices: { LAUNCH: string; PRO: string; SCALE: string }
  marketplaceFeePct: string
  sessionCookieDomain: string | undefined
  sessionTtlHours: number
  orderTtlMs: number
  settleWaitMs: number
  permitMs: number
  reconcileAfterMs: number
  reconcileCrashedMs: number
  leaseMs: number
  sweepMs: number
  auditMinutes: number
  /** Without a trailing slash and /v1/stream. */
  streamUrl: string
  eventDays: number
  requestDays: number
  /** 0: orders stay where they are. */
  archiveAfterDays: number
  webhookAllowPrivate: boolean
  metricsPort: number
  metricsHost: string
  ai: { baseUrl: string; apiKey: string | undefined; model: string | undefined } | undefined
  operatorName: string | undefined
  logLevel: string
  /** Node accepts any certificate of others: a setting of its own. */
  acceptsAnyCertificate: boolean
  /** Names in the environment that are no settings, each with the unset setting that it nearly spells. */
  misspelt: { name: string; meant: string }[]
}

/** A wrong setting, as one line that names the variable. */
export class ConfigError extends Error {}

type Environment = Record<string, string | number | undefined>

const defaults: Environment = Object.fromEntries(
  Object.entries(environment.properties).flatMap(([name, rule]) => ('default' in rule ? [[name, rule.default]] : []))
)

// Few settings are given. Compiling the checks of all of them would be a tenth of the CPU time that the start of a process takes.
function rulesOf(given: Environment): Schema {
  const names = Object.keys(given).join()
  if (names !== lastRules?.names) {
    const properties = Object.entries(environment.properties).filter(([name]) => name in given)
    lastRules = { names, schema: { type: 'object', properties: Object.fromEntries(properties) } }
  }
  return lastRules.schema
}

// The check of a schema is compiled once for the same object: a program of ours may read many environments of the same names.
let lastRules: { names: string; schema: Schema } | undefined

/** The configuration in `env`. An empty value counts as unset. Throws ConfigError naming the variable. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const e = readValues(env)
  const str = (name: string) => e[name] as string | undefined
  const num = (name: string) => e[name] as number
  const host = str('HOST') as string
  const own = ownAddress(reachedAt(host), num('PORT'), str('TLS_CERT') !== undefined)
  const baseUrl = (str('BASE_URL') ?? own).replace(/\/+$/, '')
  return {
    databaseUrl: str('DATABASE_URL'),
    databasePool: num('DATABASE_POOL'),
    databaseReadUrl: str('DATABASE_READ_URL'),
    readWaitMs: num('READ_WAIT_MS'),
    redisUrl: str('REDIS_URL'),
    dataDir: str('DATA_DIR') as string,
    host,
    port: num('PORT'),
    baseUrl,
    streamUrl: (str('STREAM_URL') ?? baseUrl.replace(/^http/, 'ws')).replace(/\/+$/, ''),
    tls: str('TLS_CERT') ? { cert: str('TLS_CERT') as string, key: str('TLS_KEY') as string } : undefined,
    trustProxy: num('TRUST_PROXY'),
    brokerUrl: str('BROKER_URL'),
    testBrokerUrl: str('TEST_BROKER_URL'),
    testBrokerHost: str('TEST_BROKER_HOST') as string,
    brokerDialect: str('BROKER_DIALECT') as 'v3' | 'next',
    brokerNext: str('BROKER_NEXT_URL')
      ? {
          url: (str('BROKER_NEXT_URL') as string).replace(/\/+$/, ''),
          authUrl: (str('BROKER_NEXT_AUTH_URL') ?? (str('BROKER_NEXT_URL') as string)).replace(/\/+$/, ''),
          appIdHeader: str('BROKER_NEXT_APP_HEADER') as string,
          callsPerMinute: num('BROKER_NEXT_CALLS')
        }
      : undefined,
    brokerAnswerTimeoutMs: num('BROKER_ANSWER_TIMEOUT_MS'),
    brokerMaxConnections: num('BROKER_MAX_CONNECTIONS'),
    tokenKeys: str('TOKEN_KEYS'),
    rateLimits: {
      LAUNCH: num('RATE_LIMIT_LAUNCH'),
      PRO: num('RATE_LIMIT_PRO'),
      SCALE: num('RATE_LIMIT_SCALE'),
      trader: num('RATE_LIMIT_TRADER')
    },
    planPrices: {
      LAUNCH: usd(str('PLAN_PRICE_LAUNCH') as string),
      PRO: usd(str('PLAN_PRICE_PRO') as string),
      SCALE: usd(str('PLAN_PRICE_SCALE') as string)
    },
    marketplaceFeePct: String(num('MARKETPLACE_FEE_PCT')),
    sessionCookieDomain: str('SESSION_COOKIE_DOMAIN'),
    sessionTtlHours: num('SESSION_TTL_HOURS'),
    orderTtlMs: num('ORDER_TTL_MS'),
    settleWaitMs: num('SETTLE_WAIT_MS'),
    permitMs: num('PERMIT_MS'),
    reconcileAfterMs: num('RECONCILE_AFTER_MS'),
    reconcileCrashedMs: num('RECONCILE_CRASHED_MS'),
    leaseMs: num('LEASE_MS'),
    sweepMs: num('SWEEP_MS'),
    auditMinutes: num('AUDIT_MINUTES'),
    eventDays: num('EVENT_DAYS'),
    requestDays: num('REQUEST_DAYS'),
    archiveAfterDays: num('ARCHIVE_AFTER_DAYS'),
    webhookAllowPrivate: num('WEBHOOK_ALLOW_PRIVATE') === 1,
    metricsPort: num('METRICS_PORT'),
    metricsHost: str('METRICS_HOST') as string,
    ai: str('AI_BASE_URL')
      ? {
          baseUrl: (str('AI_BASE_URL') as string).replace(/\/+$/, ''),
          apiKey: str('AI_API_KEY'),
          model: str('AI_MODEL')
        }
      : undefined,
    operatorName: str('OPERATOR_NAME'),
    logLevel: str('LOG_LEVEL') as string,
    acceptsAnyCertificate: env.NODE_TLS_REJECT_UNAUTHORIZED === '0',
    misspelt: findMisspelt(env)
  }
}

/** The values of all settings, with defaults, each checked by itself and with those that it needs. Throws ConfigError. */
function readValues(env: NodeJS.ProcessEnv): Environment {
  const given: Environment = {}
  for (const name of Object.keys(environment.properties)) if (env[name]) given[name] = env[name]
  let values: Environment
  try {
    values = { ...defaults, ...check<Environment>(rulesOf(given), given, '', { coerce: true }) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const lines = (error.extras.details ?? []).map(({ path, message }) => {
      const name = path.slice(1)
      const secret = /KEY|URL/.test(name)
      const value = given[name]
      const rule = environment.properties[name as keyof typeof environment.properties]?.description
      return `${name} ${message}${value !== undefined && !secret ? `, not '${value}'` : ''}${rule ? ` (${rule})` : ''}`
    })
    throw new ConfigError(lines.join('; '))
  }
  for (const [name, other] of needed)
    if (given[name] !== undefined && given[other] === undefined)
      throw new ConfigError(`${name} needs ${other} as well (${environment.properties[other].description})`)
  for (const name of addresses)
    if (given[name] !== undefined && !URL.canParse(String(given[name])))
      throw new ConfigError(`${name} is not an address (${environment.properties[name].description})`)
  return values
}

// Shorter names are common in the environments of other programs, and many words are a letter or two away from them.
const MISSPELT_MIN_LENGTH = 6
// From this length on two letters may be wrong, below it one.
const LONG_NAME = 9

/** Names of set variables that are no settings but a letter or two away from a setting that is unset. */
function findMisspelt(env: NodeJS.ProcessEnv): Config['misspelt'] {
  const settings = Object.keys(environment.properties)
  const unset = settings.filter(name => !env[name])
  return Object.keys(env)
    .filter(name => env[name] && /^[A-Z0-9_]+$/.test(name) && !settings.includes(name))
    .flatMap(name => {
      if (name.length < MISSPELT_MIN_LENGTH) return []
      const tolerated = name.length < LONG_NAME ? 1 : 2
      const meant = unset.find(setting => distance(setting, name) <= tolerated)
      return meant === undefined ? [] : [{ name, meant }]
    })
}

/** Where this machine reaches what listens at `host`: at every address is also at its loopback, and an address of all is no link. */
export function reachedAt(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}

/** The address of a host, of IPv6 as well, and a port. */
export function ownAddress(host: string, port: number, tls = false): string {
  return `http${tls ? 's' : ''}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

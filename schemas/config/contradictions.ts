// Settings that are right each by itself and wrong together, and names that are nearly those of settings. A combination
// that makes a process refuse every call prevents its start; one that only works worse than expected is logged at each
// start, and is a finding of `operator doctor`.
import { ARCHIVE_LEAST_DAYS, type Config } from './config.ts'

export interface Contradiction {
  /** `refuse`: the process does not start. `fail`: it starts, and something that was set does not work. `warn`: it works. */
  severity: 'refuse' | 'fail' | 'warn'
  /** The contradictions of the settings, with their names. */
  found: string
  advice: string
}

interface Rule {
  /** The process that the settings are for. */
  of: 'api' | 'worker' | 'both'
  severity: Contradiction['severity']
  /** What is found, or undefined where the settings agree. */
  find(config: Config): string | undefined
  advice: string
}

const rules: Rule[] = [
  {
    of: 'both',
    severity: 'refuse',
    find: ({ archiveAfterDays: days }) =>
      days > 0 && days < ARCHIVE_LEAST_DAYS
        ? `ARCHIVE_AFTER_DAYS is ${days}, and orders of the last ${ARCHIVE_LEAST_DAYS} days are not archived`
        : undefined,
    advice: `set it to 0 (orders stay where they are) or to ${ARCHIVE_LEAST_DAYS} at least`
  },
  {
    of: 'both',
    severity: 'refuse',
    find: config => {
      const several = Object.entries({ DATABASE_URL: config.databaseUrl, DATABASE_READ_URL: config.databaseReadUrl })
        .filter(([, url]) => url !== undefined && /^[a-z]+:\/\/([^@/]*@)?[^/?]*,/.test(url))
        .map(([name]) => name)
      return several.length > 0
        ? `${several.join(' and ')} names several hosts, and the driver connects to one`
        : undefined
    },
    advice: 'name the address of a proxy that leads to the primary (HAProxy beside Patroni), or a single host'
  },
  {
    of: 'api',
    severity: 'refuse',
    find: ({ baseUrl, tls, trustProxy }) =>
      isHttps(baseUrl) && !tls && trustProxy === 0
        ? `BASE_URL is ${baseUrl}, and neither TLS_CERT with TLS_KEY nor TRUST_PROXY is set: every call would be refused with HTTPS_REQUIRED`
        : undefined,
    advice: 'set TRUST_PROXY to the number of proxies in front, or TLS_CERT and TLS_KEY'
  },
  {
    of: 'api',
    severity: 'refuse',
    find: ({ baseUrl, tls }) =>
      tls && !isHttps(baseUrl)
        ? `TLS_CERT is set, and BASE_URL is ${baseUrl}: every address the api shows would be one it does not serve`
        : undefined,
    advice: 'give BASE_URL with https'
  },
  {
    of: 'api',
    severity: 'refuse',
    find: ({ host, port, metricsHost, metricsPort }) =>
      port !== 0 && port === metricsPort && (host === metricsHost || isEverywhere(host) || isEverywhere(metricsHost))
        ? `PORT and METRICS_PORT are both ${port}`
        : undefined,
    advice: 'give METRICS_PORT another number'
  },
  {
    of: 'api',
    severity: 'fail',
    find: ({ baseUrl, sessionCookieDomain }) => {
      if (sessionCookieDomain === undefined) return undefined
      const { hostname } = new URL(baseUrl)
      const domain = sessionCookieDomain.replace(/^\./, '').toLowerCase()
      return hostname === domain || hostname.endsWith(`.${domain}`)
        ? undefined
        : `SESSION_COOKIE_DOMAIN is ${sessionCookieDomain}, and the host of BASE_URL is ${hostname}: no browser accepts or sends these cookies there`
    },
    advice: 'name a domain that the host of BASE_URL belongs to'
  },
  {
    of: 'both',
    severity: 'fail',
    find: ({ redisUrl, databaseUrl, tokenKeys }) =>
      redisUrl && databaseUrl && !tokenKeys
        ? 'REDIS_URL is for several machines, and TOKEN_KEYS is unset: each machine would look for token keys in a file of its own'
        : undefined,
    advice: 'set the same TOKEN_KEYS on all machines'
  },
  {
    of: 'api',
    severity: 'fail',
    find: ({ ai }) =>
      ai && ai.apiKey === undefined && !isLoopback(ai.baseUrl)
        ? `AI_BASE_URL names ${new URL(ai.baseUrl).host}, and AI_API_KEY is unset: a server that wants a key refuses, and the built-in words are used`
        : undefined,
    advice: 'set AI_API_KEY; a server that wants none takes any text'
  },
  {
    of: 'worker',
    severity: 'fail',
    find: ({ reconcileAfterMs, brokerAnswerTimeoutMs }) =>
      reconcileAfterMs < brokerAnswerTimeoutMs
        ? `RECONCILE_AFTER_MS (${reconcileAfterMs}) is less than BROKER_ANSWER_TIMEOUT_MS (${brokerAnswerTimeoutMs}): an order is looked up while its response may still come`
        : undefined,
    advice: 'make RECONCILE_AFTER_MS at least as long'
  },
  {
    of: 'both',
    severity: 'fail',
    find: ({ metricsHost, metricsPort }) =>
      metricsPort === 0 && !['127.0.0.1', '::1', 'localhost'].includes(metricsHost)
        ? `METRICS_HOST is ${metricsHost}, and METRICS_PORT is unset: nothing is served there`
        : undefined,
    advice: 'set METRICS_PORT, or unset METRICS_HOST'
  },
  {
    of: 'worker',
    severity: 'fail',
    find: ({ testBrokerUrl, testBrokerHost }) =>
      testBrokerUrl !== undefined && testBrokerHost !== '127.0.0.1'
        ? 'TEST_BROKER_HOST is set, and TEST_BROKER_URL names a broker: no worker runs one'
        : undefined,
    advice: 'unset one of them'
  },
  {
    of: 'both',
    severity: 'warn',
    find: ({ misspelt }) =>
      misspelt.length > 0
        ? misspelt.map(({ name, meant }) => `${name} is not a setting, and ${meant} is unset`).join('; ')
        : undefined,
    advice: 'correct the name'
  },
  {
    of: 'both',
    severity: 'warn',
    find: ({ webhookAllowPrivate }) =>
      webhookAllowPrivate
        ? 'WEBHOOK_ALLOW_PRIVATE is set: webhooks may go to http and to private addresses, so a partner can reach what only this network should'
        : undefined,
    advice: 'leave it unset but for development'
  },
  {
    of: 'both',
    severity: 'warn',
    find: ({ acceptsAnyCertificate }) =>
      acceptsAnyCertificate
        ? "NODE_TLS_REJECT_UNAUTHORIZED is 0: whatever certificate the broker, PostgreSQL or Redis shows is accepted, so traders' tokens may go to anybody"
        : undefined,
    advice: 'unset it, and name the file of an authority of your own in NODE_EXTRA_CA_CERTS'
  },
  {
    of: 'worker',
    severity: 'warn',
    find: ({ brokerUrl, brokerNext }) => {
      const open = Object.entries({
        BROKER_URL: brokerUrl,
        BROKER_NEXT_URL: brokerNext?.url,
        BROKER_NEXT_AUTH_URL: brokerNext?.authUrl
      }).filter(([, url]) => url !== undefined && isClearText(url))
      return open.length > 0
        ? `${open.map(([name]) => name).join(' and ')} without TLS: traders' tokens travel in clear text`
        : undefined
    },
    advice: 'use wss and https addresses, unless the network between is your own'
  },
  {
    of: 'api',
    severity: 'warn',
    find: ({ ai }) =>
      ai?.apiKey !== undefined && isClearText(ai.baseUrl)
        ? 'AI_BASE_URL without TLS: AI_API_KEY travels in clear text'
        : undefined,
    advice: 'use an https address, unless the network between is your own'
  }
]

/** The contradictions that concern a process; those of all processes without one. */
export function findContradictions(config: Config, process?: 'api' | 'worker'): Contradiction[] {
  return rules
    .filter(({ of }) => process === undefined || of === 'both' || of === process)
    .flatMap(({ severity, find, advice }) => {
      const found = find(config)
      return found === undefined ? [] : [{ severity, found, advice }]
    })
}

function isHttps(url: string): boolean {
  return url.startsWith('https:')
}

function isLoopback(url: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(new URL(url).hostname)
}

function isClearText(url: string): boolean {
  return /^(ws|http):/.test(url) && !isLoopback(url)
}

function isEverywhere(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

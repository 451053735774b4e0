// Checks of the surroundings: questionable settings, certificates, Redis, the broker.
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { countOtherInstallations } from '../../db/platform/installations.ts'
import { reachRedis } from '../../db/platform/reach-redis.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { isUntrusted } from '../../db/postgres/system-errors.ts'
import type { Config } from '../../schemas/config/config.ts'
import { findContradictions } from '../../schemas/config/contradictions.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

const BROKER_TIMEOUT_MS = 8000
const EXPIRY_WARN_DAYS = 14
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/** The configuration can be read; this checks whether it suits production. */
export async function checkSettings(config: Config): Promise<Finding[]> {
  const check = 'configuration'
  const { protocol, hostname } = new URL(config.baseUrl)
  const found: Finding[] = []
  if (protocol === 'http:' && !LOOPBACK.test(hostname))
    found.push(warn(check, `BASE_URL is ${config.baseUrl}`, 'partners need HTTPS: set an https BASE_URL'))
  if (config.databaseUrl && !config.redisUrl && !config.tokenKeys)
    found.push(
      warn(
        check,
        `the token keys are a file in ${config.dataDir}`,
        'several machines need the same TOKEN_KEYS: set them'
      )
    )
  for (const { severity, found: text, advice } of findContradictions(config))
    found.push((severity === 'warn' ? warn : fail)(check, text, advice))
  return found.length > 0 ? found : [ok(check, 'complete and valid')]
}

export async function checkTls({ tls }: Config): Promise<Finding[]> {
  if (!tls) return []
  const check = 'certificate'
  let expires: Date
  try {
    readFileSync(tls.key)
    expires = new Date(new X509Certificate(readFileSync(tls.cert)).validTo)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return [fail(check, `cannot be read (${code ?? message})`, 'correct TLS_CERT and TLS_KEY')]
  }
  const days = Math.floor((expires.getTime() - Date.now()) / 86_400_000)
  if (days < 0) return [fail(check, `expired on ${expires.toISOString()}`, 'renew it')]
  if (days < EXPIRY_WARN_DAYS) return [warn(check, `expires in ${days} days`, 'renew it, then restart the api')]
  return [ok(check, `valid for ${days} days`)]
}

export async function checkRedis({ redisUrl }: Config): Promise<Finding[]> {
  if (!redisUrl) return [ok('redis', 'not used: limits per process, wake-ups through PostgreSQL')]
  try {
    await reachRedis(redisUrl)
    return [ok('redis', 'responds, and takes writes')]
  } catch (error) {
    const { code, name, message } = error as NodeJS.ErrnoException
    if (name === 'ReplyError') return [fail('redis', `refuses: ${message}`, adviceOnRefusal(message))]
    if (isUntrusted(code))
      return [
        fail(
          'redis',
          `its certificate is not accepted (${code})`,
          "name its authority's file in NODE_EXTRA_CA_CERTS, and the host in REDIS_URL as the certificate does"
        )
      ]
    return [
      fail('redis', `does not respond (${code ?? name})`, 'start it, or correct REDIS_URL; with TLS it is rediss://')
    ]
  }
}

/** What a refusal needs: the rights of the user in REDIS_URL, or another server. */
function adviceOnRefusal(message: string): string {
  if (/^(WRONGPASS|NOAUTH)/.test(message)) return 'correct user and password in REDIS_URL'
  if (message.startsWith('NOPERM'))
    return 'give the user in REDIS_URL these rights: ~* &* +@read +@write +@pubsub +@scripting +@connection +@transaction +info'
  return 'until it does not, each process counts for itself; name a primary with memory to spare'
}

/** Another installation on our Redis. Nothing where that cannot be read: the check of Redis shows why. */
export async function checkInstallations(db: Db, { redisUrl }: Config): Promise<Finding[]> {
  const others = redisUrl === undefined ? 0 : await countOtherInstallations(db, redisUrl).catch(() => 0)
  if (others === 0) return []
  const found = 'another installation uses it: each shows prices of the other, and wakes up for its orders'
  return [fail('redis', found, 'give each a Redis of its own: numbers of databases do not separate channels')]
}

/** Opens a WebSocket to the broker, sends a ping and closes it, or requests the health of its REST side; sends nothing else. */
export async function checkBroker({ brokerUrl, brokerNext, brokerDialect }: Config): Promise<Finding[]> {
  const findings = [
    ...(brokerUrl ? [await checkSocket(brokerUrl)] : []),
    ...(brokerNext ? [await checkHealth(brokerNext.url)] : [])
  ]
  const wanted = brokerDialect === 'v3' ? 'BROKER_URL' : 'BROKER_NEXT_URL'
  if (brokerDialect === 'v3' ? brokerUrl : brokerNext) return findings
  const remedy = 'workers need it; `operator run` and `operator broker simulate` bring a simulated one'
  return [...findings, warn('broker', `${wanted} is unset`, remedy)]
}

async function checkSocket(brokerUrl: string): Promise<Finding> {
  const url = new URL(brokerUrl)
  if (!url.searchParams.has('app_id')) url.searchParams.set('app_id', '1')
  const trouble = await openOnce(url.href)
  if (trouble === undefined) return ok('broker', `${url.host} accepts connections and responds`)
  return fail('broker', `${url.host} ${trouble}`, 'correct BROKER_URL, or look at the network')
}

async function checkHealth(base: string): Promise<Finding> {
  const { host } = new URL(base)
  const remedy = 'correct BROKER_NEXT_URL, or look at the network'
  try {
    const { status } = await fetch(`${base}/v1/health`, { signal: AbortSignal.timeout(BROKER_TIMEOUT_MS) })
    return status === 200 ? ok('broker', `${host} is up`) : fail('broker', `${host} returned HTTP ${status}`, remedy)
  } catch (error) {
    const { name, cause } = error as { name: string; cause?: { code?: string } }
    return fail('broker', `${host} does not respond (${cause?.code ?? name})`, remedy)
  }
}

/** Undefined when the socket opened and anything arrived; otherwise what happened instead. */
function openOnce(url: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const socket = new WebSocket(url, { handshakeTimeout: BROKER_TIMEOUT_MS })
    const timer = setTimeout(() => done('accepts connections and does not respond'), BROKER_TIMEOUT_MS)
    const done = (trouble?: string) => {
      clearTimeout(timer)
      socket.removeAllListeners()
      socket.on('error', () => {}) // Closing an opening socket emits another error.
      socket.terminate()
      resolve(trouble)
    }
    socket.once('open', () => socket.send(JSON.stringify({ ping: 1 })))
    socket.once('message', () => done())
    socket.once('close', code => done(`closes connections at once (${code})`))
    socket.once('unexpected-response', (_request, { statusCode }) => done(`returned HTTP ${statusCode}`))
    socket.once('error', (error: NodeJS.ErrnoException) => done(`does not respond (${error.code ?? 'no handshake'})`))
  })
}

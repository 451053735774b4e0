// Settings that contradict each other: what keeps a process from starting, what is logged at its start, and what the
// doctor reports of both.
// test in the full run only
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { readConfig } from '../../schemas/config/config.ts'
import { findContradictions } from '../../schemas/config/contradictions.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { closeAll, onClose, openHarness, TOKEN_KEYS } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startApi, startProcess, startWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 100, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const { env } = await openHarness({ env: { BROKER_URL: simulator.url } })

interface Pair {
  env: Record<string, string>
  /** What is found; nothing where the settings agree. */
  says?: RegExp
  severity?: 'refuse' | 'fail' | 'warn'
  of?: 'api' | 'worker'
}

const tls = { TLS_CERT: '/c', TLS_KEY: '/k' }
const https = { BASE_URL: 'https://api.example.com' }
const pairs: Pair[] = [
  { env: https, says: /BASE_URL .* TLS_CERT .* TRUST_PROXY/, severity: 'refuse', of: 'api' },
  { env: { ...https, TRUST_PROXY: '1' } },
  { env: { ...https, ...tls } },
  { env: tls },
  {
    env: { ...tls, BASE_URL: 'http://api.example.com' },
    says: /TLS_CERT .* BASE_URL/,
    severity: 'refuse',
    of: 'api'
  },
  { env: { PORT: '9090', METRICS_PORT: '9090' }, says: /PORT and METRICS_PORT/, severity: 'refuse', of: 'api' },
  {
    env: { HOST: '10.0.0.1', METRICS_HOST: '0.0.0.0', PORT: '9090', METRICS_PORT: '9090' },
    says: /PORT and METRICS_PORT/,
    severity: 'refuse',
    of: 'api'
  },
  { env: { HOST: '10.0.0.1', PORT: '9090', METRICS_PORT: '9090' } },
  { env: { PORT: '0', METRICS_PORT: '0' } },
  { env: { ARCHIVE_AFTER_DAYS: '39' }, says: /ARCHIVE_AFTER_DAYS is 39/, severity: 'refuse' },
  { env: { ARCHIVE_AFTER_DAYS: '40' } },
  { env: { ARCHIVE_AFTER_DAYS: '0' } },
  {
    env: { TEST_BROKER_URL: 'ws://127.0.0.1:1/x', TEST_BROKER_HOST: '10.0.0.1' },
    says: /TEST_BROKER_HOST .* TEST_BROKER_URL/,
    severity: 'fail',
    of: 'worker'
  },
  { env: { TEST_BROKER_HOST: '10.0.0.1' } },
  {
    env: { ...https, TRUST_PROXY: '1', SESSION_COOKIE_DOMAIN: '.example.org' },
    says: /SESSION_COOKIE_DOMAIN .* BASE_URL/,
    severity: 'fail',
    of: 'api'
  },
  {
    env: { ...https, TRUST_PROXY: '1', SESSION_COOKIE_DOMAIN: 'ple.com' },
    says: /SESSION_COOKIE_DOMAIN/,
    severity: 'fail',
    of: 'api'
  },
  { env: { ...https, TRUST_PROXY: '1', SESSION_COOKIE_DOMAIN: '.Example.com' } },
  {
    env: { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://d/x' },
    says: /REDIS_URL .* TOKEN_KEYS/,
    severity: 'fail'
  },
  { env: { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://d/x', TOKEN_KEYS } },
  {
    env: { AI_BASE_URL: 'https://ai.example.com/v1' },
    says: /AI_BASE_URL .* AI_API_KEY/,
    severity: 'fail',
    of: 'api'
  },
  { env: { AI_BASE_URL: 'http://127.0.0.1:11434/v1' } },
  { env: { AI_BASE_URL: 'https://ai.example.com/v1', AI_API_KEY: 'k' } },
  {
    env: { AI_BASE_URL: 'http://ai.example.com/v1', AI_API_KEY: 'k' },
    says: /AI_API_KEY travels in clear text/,
    severity: 'warn',
    of: 'api'
  },
  {
    env: { RECONCILE_AFTER_MS: '5000', BROKER_ANSWER_TIMEOUT_MS: '6000' },
    says: /RECONCILE_AFTER_MS .* BROKER_ANSWER_TIMEOUT_MS/,
    severity: 'fail',
    of: 'worker'
  },
  { env: { RECONCILE_AFTER_MS: '6000', BROKER_ANSWER_TIMEOUT_MS: '6000' } },
  { env: { METRICS_HOST: '0.0.0.0' }, says: /METRICS_HOST .* METRICS_PORT/, severity: 'fail' },
  { env: { METRICS_HOST: '0.0.0.0', METRICS_PORT: '9091' } },
  {
    env: { BROKR_URL: 'wss://broker.example.com', LOGLEVEL: 'debug' },
    says: /^BROKR_URL is not a setting, and BROKER_URL is unset; LOGLEVEL is not a setting, and LOG_LEVEL is unset$/,
    severity: 'warn'
  },
  // A setting that is set was not misspelt, and short or empty names are anything's.
  { env: { BROKR_URL: 'x', BROKER_URL: 'wss://broker.example.com', HOSTS: 'h', PORTS: '1', REDIS_URI: '' } },
  { env: { BROKER_URL: 'ws://broker.example.com' }, says: /BROKER_URL without TLS/, severity: 'warn', of: 'worker' },
  { env: { BROKER_URL: 'wss://broker.example.com' } },
  { env: { NODE_TLS_REJECT_UNAUTHORIZED: '1' } },
  {
    env: { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
    says: /NODE_TLS_REJECT_UNAUTHORIZED is 0: whatever certificate/,
    severity: 'warn'
  },
  { env: { BROKER_URL: 'ws://localhost:1' } },
  {
    env: {
      BROKER_NEXT_URL: 'https://a.example.com',
      BROKER_NEXT_AUTH_URL: 'http://b.example.com',
      BROKER_NEXT_APP_HEADER: 'X-App'
    },
    says: /^BROKER_NEXT_AUTH_URL without TLS/,
    severity: 'warn',
    of: 'worker'
  }
]

const contradicting = suite('settings that contradict each other')

contradicting('are found in the process they are for, pair by pair, and nothing where they agree', () => {
  for (const { env: given, says, severity, of } of pairs) {
    const config = readConfig(given)
    const found = findContradictions(config)
    const about = JSON.stringify([given, found])
    assert.is(found.length, says ? 1 : 0, about)
    if (!says) continue
    assert.match(found[0]?.found ?? '', says, about)
    assert.is(found[0]?.severity, severity, about)
    for (const process of ['api', 'worker'] as const)
      assert.is(findContradictions(config, process).length, of === undefined || of === process ? 1 : 0, about)
  }
})

contradicting('are refused by every process where one has no effect without the other', () => {
  for (const [given, says] of [
    [{ AI_API_KEY: 'k' }, 'AI_API_KEY needs AI_BASE_URL as well'],
    [{ AI_MODEL: 'm' }, 'AI_MODEL needs AI_BASE_URL as well'],
    [{ TLS_CERT: '/c' }, 'TLS_CERT needs TLS_KEY as well'],
    [{ TLS_KEY: '/k' }, 'TLS_KEY needs TLS_CERT as well'],
    [{ BROKER_NEXT_URL: 'https://a' }, 'BROKER_NEXT_URL needs BROKER_NEXT_APP_HEADER as well'],
    [{ BROKER_NEXT_APP_HEADER: 'X' }, 'BROKER_NEXT_APP_HEADER needs BROKER_NEXT_URL as well'],
    [{ BROKER_NEXT_AUTH_URL: 'https://a' }, 'BROKER_NEXT_AUTH_URL needs BROKER_NEXT_URL as well']
  ] as const)
    assert.throws(
      () => readConfig(given),
      ({ message }: Error) => message.startsWith(says),
      JSON.stringify(given)
    )
})

contradicting('have the address of an api with a certificate begin with https', () => {
  assert.is(readConfig({ ...tls, PORT: '8443' }).baseUrl, 'https://127.0.0.1:8443')
  assert.is(readConfig({ PORT: '8080' }).baseUrl, 'http://127.0.0.1:8080')
})

contradicting('have an api at every address named by one that is a link', () => {
  assert.is(readConfig({ HOST: '0.0.0.0' }).baseUrl, 'http://127.0.0.1:8080')
  assert.is(readConfig({ HOST: '::' }).baseUrl, 'http://[::1]:8080')
})

const wrong = suite('a setting that is wrong by itself')

wrong('is not shown where it may hold a password or a key', () => {
  for (const name of ['DATABASE_URL', 'DATABASE_READ_URL', 'REDIS_URL', 'TOKEN_KEYS', 'BROKER_URL', 'AI_API_KEY']) {
    // Longer than any setting may be.
    const given = { [name]: `first://operator:hidden@${'h'.repeat(2000)}` }
    assert.throws(
      () => readConfig(given),
      (error: Error) => {
        assert.match(error.message, new RegExp(`^${name} must`))
        assert.not.match(error.message, 'hidden')
        return true
      }
    )
  }
  assert.throws(() => readConfig({ LOG_LEVEL: 'loud' }), /LOG_LEVEL .*, not 'loud'/)
})

wrong('is no price with cents, whichever', () => {
  for (let cents = 0; cents <= 100_000; cents++) {
    const price = `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`
    assert.is(readConfig({ ...env, PLAN_PRICE_PRO: price }).planPrices.PRO, price)
  }
  assert.is(readConfig({ ...env, PLAN_PRICE_PRO: '9999999999.99' }).planPrices.PRO, '9999999999.99')
  assert.is(readConfig({ ...env, PLAN_PRICE_PRO: '29.9' }).planPrices.PRO, '29.90')
  for (const price of ['19.999', '-1', 'free', '1e2', '19,99', 'NaN', '99999999999'])
    assert.throws(() => readConfig({ ...env, PLAN_PRICE_PRO: price }), /^PLAN_PRICE_PRO must .* not /, price)
})

wrong('is an address that is none, named by one line', async () => {
  const addresses: Record<string, Record<string, string>> = {
    BASE_URL: { BASE_URL: 'http://a b' },
    STREAM_URL: { STREAM_URL: 'wss://a b' },
    REDIS_URL: { REDIS_URL: 'redis://[bad' },
    BROKER_URL: { BROKER_URL: 'ws://' },
    TEST_BROKER_URL: { TEST_BROKER_URL: 'ws://[bad' },
    BROKER_NEXT_URL: { BROKER_NEXT_URL: 'http://a:99999', BROKER_NEXT_APP_HEADER: 'App' },
    AI_BASE_URL: { AI_BASE_URL: 'http://' }
  }
  for (const [name, set] of Object.entries(addresses))
    assert.throws(() => readConfig({ ...env, ...set }), new RegExp(`^${name} is not an address `), name)
  const worker = startProcess('worker/main.ts', { ...env, BROKER_URL: 'ws://[bad' })
  assert.is(await worker.ended, 78)
  assert.is(worker.lines.length, 1, worker.lines.join('\n'))
  assert.match(worker.lines[0] ?? '', /BROKER_URL is not an address/)
})

contradicting('keep the api from starting where every call would be refused, and the worker from nothing', async () => {
  const api = startProcess('api/main.ts', { ...env, ...https, PORT: '0' })
  assert.is(await api.ended, 78)
  assert.is(api.lines.length, 1, api.lines.join('\n'))
  assert.match(api.lines[0] ?? '', /^Wrong configuration: BASE_URL is https:.* set TRUST_PROXY/)
  const worker = await startWorker({ ...env, ...https })
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0)
})

contradicting('are logged at the start where the process can work, and fail the doctor', async () => {
  const wrong = { ...env, AI_BASE_URL: 'https://ai.example.com/v1' }
  const api = await startApi(wrong)
  const line = JSON.parse(await api.line(/AI_API_KEY/)) as { level: number; advice: string }
  assert.is(line.level, 40)
  assert.match(line.advice, 'set AI_API_KEY')
  api.kill('SIGTERM')
  const findings = async (given: Record<string, string>) => {
    const { json } = await operator(given, 'doctor', '--json')
    const found = json.checks.filter(({ check }: { check: string }) => check === 'configuration')
    assert.is(found.length, 1, JSON.stringify(found))
    return [found[0].status, found[0].found]
  }
  const [refused, failed, right] = await Promise.all([findings({ ...env, ...https }), findings(wrong), findings(env)])
  assert.is(refused[0], 'fail')
  assert.match(refused[1], 'HTTPS_REQUIRED')
  assert.is(failed[0], 'fail')
  assert.match(failed[1], 'AI_API_KEY is unset')
  assert.equal(right, ['ok', 'complete and valid'])
})

contradicting.after(closeAll)
wrong.run()
contradicting.run()

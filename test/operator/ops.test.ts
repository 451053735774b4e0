// What ops rely on: HTTPS refused in clear text, security headers, metrics, readiness, traces, and Redis for
// several machines with its loss and return.
// test in the full run only
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:tls'
import { Redis } from 'ioredis'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { checkRedis } from '../../cli/doctor/around.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { makeCertificate } from '../support/certificate.ts'
import { freePort } from '../support/free-port.ts'
import { call, closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startApi, startProcess, startTestWorker, startWorker, type TestProcess } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 21, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { BROKER_URL: simulator.url } })
const { db } = harness.services
const partner = await harness.makePartner()
const trader = await partner.makeTrader()
const authorization = `Bearer ${partner.key}`
const order = () => tickOrder(trader.traderExternalId)

const https = suite('HTTPS')
const strict = await openHarness({ url: harness.url, env: { BASE_URL: 'https://api.example.com', TRUST_PROXY: '1' } })

https('is required where BASE_URL has https: clear text is refused before anything else', async () => {
  for (const path of ['/v1/me', '/v1/nothing', '/sites/none/']) {
    const response = await fetch(`${strict.address}${path}`)
    const body = (await response.json()) as { error: string; requestId: string }
    assert.is(response.status, 403)
    assert.is(body.error, 'HTTPS_REQUIRED')
    assert.is(body.requestId, response.headers.get('x-request-id'))
  }
})

https('is believed from a trusted proxy, with HSTS in the response', async () => {
  const response = await call(strict.address, getMe, { headers: { authorization, 'x-forwarded-proto': 'https' } })
  assert.is(response.status, 200)
  assert.match(response.headers.get('strict-transport-security') ?? '', /max-age=31536000/)
})

https('is not believed when a proxy names clear text as well, in whatever order', async () => {
  for (const scheme of ['https, http', 'http, https', 'https,http', 'https, ']) {
    const response = await call(strict.address, getMe, { headers: { authorization, 'x-forwarded-proto': scheme } })
    assert.is(response.body.error, 'HTTPS_REQUIRED', scheme)
  }
})

https('is not believed from anybody when no proxy is trusted', async () => {
  const open = await openHarness({ url: harness.url, env: { BASE_URL: 'https://api.example.com' } })
  const response = await call(open.address, getMe, { headers: { authorization, 'x-forwarded-proto': 'https' } })
  assert.is(response.body.error, 'HTTPS_REQUIRED')
})

https('is served by the process itself with TLS_CERT and TLS_KEY', async () => {
  const { certFile, keyFile } = await makeCertificate()
  const api = await startApi({ ...harness.env, BASE_URL: 'https://localhost', TLS_CERT: certFile, TLS_KEY: keyFile })
  const { port } = new URL(api.address)
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    request(
      { port, host: '127.0.0.1', path: '/v1/me', rejectUnauthorized: false, headers: { authorization } },
      response => resolve(response.resume())
    )
      .on('error', reject)
      .end()
  })
  assert.is(incoming.statusCode, 200)
  assert.match(incoming.headers['strict-transport-security'] ?? '', /max-age=31536000/)
  const spoken = await fetch(`http://127.0.0.1:${port}/v1/me`, { headers: { authorization } }).catch(() => 'refused')
  assert.is(spoken, 'refused', 'clear text got a response')
})

https('responses carry no server name and are neither sniffed, framed nor kept', async () => {
  const { headers } = await partner.call(getMe)
  assert.is(headers.get('server'), null)
  assert.is(headers.get('x-powered-by'), null)
  assert.is(headers.get('x-content-type-options'), 'nosniff')
  assert.is(headers.get('x-frame-options'), 'DENY')
  assert.is(headers.get('referrer-policy'), 'no-referrer')
  assert.is(headers.get('cache-control'), 'no-store')
})

const config = suite('a wrong setting')

config('stops each process at its start with one line that names the variable', async () => {
  for (const [file, env, name] of [
    ['api/main.ts', { PORT: 'eighty' }, 'PORT'],
    ['worker/main.ts', { BROKER_URL: 'http://broker' }, 'BROKER_URL'],
    ['api/main.ts', { TOKEN_KEYS: 'k1:short' }, 'TOKEN_KEYS'],
    ['worker/main.ts', { ORDER_TTL_MS: '0' }, 'ORDER_TTL_MS'],
    ['api/main.ts', { TLS_CERT: '/x' }, 'TLS_KEY'],
    ['api/main.ts', { TOKEN_KEYS: `x:${randomBytes(32).toString('base64')}` }, 'TOKEN_KEYS']
  ] as const) {
    const process = startProcess(file, { ...harness.env, LOG_LEVEL: 'silent', PORT: '0', ...env })
    assert.is(await process.ended, 78, name)
    assert.is(process.lines.length, 1, process.lines.join('\n'))
    assert.ok(process.lines[0]?.includes(name), process.lines[0])
  }
})

const metrics = suite('the private port')
// For what comes next as well.
let api: Awaited<ReturnType<typeof startApi>>
let worker: TestProcess
let metricsPort: number

metrics('show requests, orders, queues, budget and ledger, and whether the process is ready', async () => {
  worker = await startWorker({ ...harness.env, METRICS_PORT: '0' })
  const port = await freePort()
  metricsPort = port
  api = await startApi({ ...harness.env, METRICS_PORT: String(port) })
  await api.line(/"msg":"metrics"/)
  await call(api.address, getMe, { headers: { authorization } })
  // Of each queue a job that waits for its first try and one that failed before, due later: nobody takes them meanwhile.
  const jobs = ['copy.fanout', 'copy.close', 'copy.limits', 'template.deploy', 'order.copy', 'sell'].flatMap(
    (name, place) => [
      { name, state: 'created', minutes: place % 2 ? 60 : 10 },
      { name, state: 'retry', minutes: place % 2 ? 10 : 60 }
    ]
  )
  await db.raw(
    `insert into pgboss.job (name, state, created_on, start_after)
     select name, state::pgboss.job_state, now() - minutes * interval '1 minute', now() + interval '1 day'
       from jsonb_to_recordset(:jobs::jsonb) as j (name text, state text, minutes int)`,
    { jobs: JSON.stringify(jobs) }
  )
  const lines = [
    ...jobs.map(({ name }) => new RegExp(`service_queue_oldest_seconds\\{queue="${name}"\\} 36\\d\\d`)),
    /service_http_requests_total\{operation="getMe",status="200",code=""\} 1/,
    /service_http_request_seconds_count\{operation="getMe"\} 1/,
    /service_orders\{phase="sending"\} 0/,
    /service_ledger_drift_usd 0/,
    /service_pool_waiting 0/,
    /nodejs_eventloop_lag_seconds/
  ]
  // What cannot be read within four seconds is left out, and the process is not ready then.
  let missing = lines
  await until('all of them', async () => {
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    missing = lines.filter(line => !line.test(text))
    return missing.length === 0
  }).catch(() => assert.equal(missing, []))
  assert.is((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200)
  await until('it to be ready', async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200)
  assert.is((await fetch(`http://127.0.0.1:${port}/else`)).status, 404)
})

metrics('show figures of the database also where others cannot be read', async () => {
  const read = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
  await until('the figures', async () => /service_webhooks\{state="enabled"\} 0/.test(await read()))
  await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/' } })
  const [table, other] = ['broker_app_refusals', 'broker_app_refusals_elsewhere']
  await db.raw('alter table ?? rename to ??', [table, other])
  // So long ago that figures which are read show a lower age.
  const ageOf = (text: string, figures: string) =>
    Number(new RegExp(`service_figures_age_seconds\\{figures="${figures}"\\} (\\S+)`).exec(text)?.[1])
  // The others may be as old where they could not be read in time.
  const figures = (text: string) =>
    ageOf(text, 'broker') > 1 &&
    ageOf(text, 'webhooks') < ageOf(text, 'broker') &&
    /service_webhooks\{state="enabled"\} 1/.test(text)
  await until('figures of different ages', async () => figures(await read())).finally(() =>
    db.raw('alter table ?? rename to ??', [other, table])
  )
  await until('them read again', async () => ageOf(await read(), 'broker') < 1)
})

const traces = suite('a trace')

traces('given with a request is found on the api’s line and on the worker’s', async () => {
  const trace = randomBytes(16).toString('hex')
  const headers = { authorization, traceparent: `00-${trace}-${randomBytes(8).toString('hex')}-01` }
  const response = await call(api.address, placeBinaryOrder, { body: order(), headers })
  assert.is(response.status, 200, JSON.stringify(response.body))
  assert.match(await api.line(new RegExp(`"trace":"${trace}".*"operation":"placeBinaryOrder"`)), /request/)
  const access = await api.line(new RegExp(`"trace":"${trace}"`))
  assert.equal(
    [access.includes(`"keyId":"${partner.keyId}"`), /"ip":"(::ffff:)?127\.0\.0\.1"/.test(access)],
    [true, true]
  )
  assert.match(await worker.line(new RegExp(`"trace":"${trace}".*"msg":"bought"`)), /contractId/)
  worker.kill('SIGTERM')
  await worker.ended
})

const several = suite('with Redis, for several machines')
const redis = await startRedis()
if (redis) {
  const env = { ...harness.env, REDIS_URL: redis.url, RATE_LIMIT_LAUNCH: '5' }
  const apis = await Promise.all([startApi(env), startApi(env)])
  await startTestWorker({ ...env, SWEEP_MS: '300' })

  several('two APIs count one limit together', async () => {
    const reading = new Redis(redis.url)
    onClose(async () => reading.disconnect())
    // One to which Redis does not respond within half a second counts for itself, as happens on a busy machine: then with another key.
    const statuses = await until('all to be counted in Redis', async () => {
      const { key, keyId } = await harness.makePartner({ plan: 'LAUNCH' })
      const found: number[] = []
      for (let count = 0; count < 8; count++) {
        const { address } = apis[count % 2] as { address: string }
        found.push((await call(address, getMe, { headers: { authorization: `Bearer ${key}` } })).status)
      }
      return (await reading.get(`svc_rate:key:${keyId}`)) === '8' && found
    })
    assert.equal(statuses, [200, 200, 200, 200, 200, 429, 429, 429])
  })

  several('doctor reports one that responds and takes no writes, and a database that it has not', async () => {
    const admin = new Redis(redis.url)
    const found = async (url = redis.url) => {
      const [finding] = await checkRedis(readConfig({ REDIS_URL: url }))
      return `${finding?.status} ${finding?.found}`
    }
    try {
      assert.match(await found(), /^ok /)
      await admin.config('SET', 'maxmemory', '1')
      assert.match(await found(), /^fail refuses: OOM /)
      await admin.config('SET', 'maxmemory', '0')
      await admin.replicaof('127.0.0.1', '1')
      assert.match(await found(), /^fail refuses: READONLY /)
      await admin.replicaof('NO', 'ONE')
      assert.match(await found(`${redis.url}/99`), /^fail refuses: ERR DB index is out of range/)
      assert.match(await found(), /^ok /)
    } finally {
      admin.disconnect()
    }
  })

  several('doctor advises what a user without rights, a wrong password and an unknown certificate need', async () => {
    const admin = new Redis(redis.url)
    const at = redis.url.slice('redis://'.length)
    const { cert, key } = await makeCertificate()
    const tls = createServer({ cert, key }, socket => socket.on('error', () => undefined))
    tls.on('tlsClientError', () => undefined)
    tls.listen(0, '127.0.0.1')
    onClose(async () => void tls.close())
    await once(tls, 'listening')
    const advice = async (url: string) => (await checkRedis(readConfig({ REDIS_URL: url })))[0]?.advice ?? 'none'
    try {
      await admin.call('ACL', 'SETUSER', 'reader', 'on', '>word', '~*', '&*', '+@read', '+@connection', '+info')
      assert.match(await advice(`redis://reader:word@${at}`), '+@read +@write +@pubsub')
      assert.match(await advice(`redis://reader:other@${at}`), 'correct user and password')
      const { port } = tls.address() as AddressInfo
      assert.match(await advice(`rediss://localhost:${port}`), 'NODE_EXTRA_CA_CERTS')
      // These rights are enough.
      const rights = (await advice(`redis://reader:word@${at}`)).split(': ').at(-1)?.split(' ') ?? []
      await admin.call('ACL', 'SETUSER', 'worker', 'on', '>word', ...rights)
      assert.is(await advice(`redis://worker:word@${at}`), 'none')
    } finally {
      admin.disconnect()
    }
  })

  several(
    'another installation on it is found by its start and by the doctor, whatever the number of its database',
    async () => {
      const found = async (redisUrl: string) => {
        const { json } = await operator({ ...harness.env, REDIS_URL: redisUrl }, 'doctor', '--json')
        return (json.checks as { check: string; status: string; found: string }[])
          .filter(({ check }) => check === 'redis')
          .map(finding => `${finding.status} ${finding.found}`)
      }
      const ours = /another installation uses this Redis/
      assert.equal(await found(redis.url), ['ok responds, and takes writes'])
      assert.not(
        apis.some(({ lines }) => lines.some(line => ours.test(line))),
        'two of one installation'
      )
      const { url } = await openHarness()
      const stranger = await startApi({ ...env, DATABASE_URL: url, REDIS_URL: `${redis.url}/1` })
      await stranger.line(ours)
      assert.ok((await found(redis.url)).some(finding => finding.startsWith('fail another installation uses it')))
      stranger.kill('SIGTERM')
      await stranger.ended
      assert.is((await found(redis.url)).length, 1)
    }
  )

  several(
    'orders are woken through it, and go on without it, slower, when it is lost; it is used again when it returns',
    async () => {
      const place = (api: number) =>
        call((apis[api] as { address: string }).address, placeBinaryOrder, {
          body: order(),
          headers: { authorization }
        })
      assert.is((await place(0)).status, 200)
      await redis.stop()
      const lost = await place(1)
      assert.is(lost.status, 200, JSON.stringify(lost.body))
      await redis.start()
      // Read from Redis itself: on a busy machine an order is slow with it as well.
      const listening = new Redis(redis.url)
      const reading = new Redis(redis.url)
      const messages: { channel: string; message: string }[] = []
      try {
        await listening.psubscribe('*')
        listening.on('pmessage', (_pattern, channel, message) => messages.push({ channel, message }))
        const placed: string[] = []
        await until('the api to receive the wake-up of an order', async () => {
          const { status, body } = await place(0)
          assert.is(status, 200)
          placed.push(body.orderId)
          const notified = messages.find(({ message }) => placed.some(orderId => message.includes(orderId)))
          return notified && Number((await reading.pubsub('NUMSUB', notified.channel))[1]) > 0
        })
      } finally {
        for (const client of [listening, reading]) client.disconnect()
      }
    }
  )
}

several.after(closeAll)
for (const tests of [https, config, metrics, traces, several]) tests.run()

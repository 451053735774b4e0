// The stream's description: AsyncAPI of the schemas that check every message, its page, and the consumer of the guide.
// test in the full run only
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Parser } from '@asyncapi/parser'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocketServer } from 'ws'
import { exampleOf } from '../../api/description/schemas.ts'
import { EventMessage, fromClient, fromService, TicketEventMessage } from '../../schemas/stream.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'
import { startApi, startProcess, startWorker } from '../support/processes.ts'
import { readAll } from './reading.ts'

const harness = await openHarness({ env: { STREAM_URL: 'wss://stream.example.com' } })
const get = async (path: string) => fetch(harness.address + path)

const described = suite('/docs/asyncapi.json')

described('is a valid AsyncAPI 3.0 document of every message both ways', async () => {
  const text = await (await get('/docs/asyncapi.json')).text()
  const { document, diagnostics } = await new Parser().parse(text)
  assert.equal(
    diagnostics.filter(({ severity }) => severity === 0).map(({ message, path }) => `${path.join('.')}: ${message}`),
    []
  )
  assert.is(document?.version(), '3.0.0')
  const named = (id: string) =>
    document
      ?.operations()
      .get(id)
      ?.messages()
      .all()
      .map(message => message.name())
      .sort()
  assert.equal(named('fromClient'), Object.keys(fromClient).sort())
  assert.equal(named('fromService'), [...Object.keys(fromService), 'ticketEvent'].sort())
  assert.is(document?.servers().get('service')?.host(), 'stream.example.com')
})

described('has an event as the socket of a key receives it and as that of a ticket does', async () => {
  const text = await (await get('/docs/asyncapi.json')).text()
  const { components } = JSON.parse(text)
  const ajv = new Ajv2020({ strict: false, validateFormats: false }).addSchema({ $id: 'stream', components })
  for (const sent of [EventMessage, TicketEventMessage].map(exampleOf)) {
    const fits = Object.values<{ payload: { $ref: string } }>(components.messages).filter(({ payload }) =>
      ajv.validate(`stream${payload.$ref}`, sent)
    )
    assert.is(fits.length, 1, JSON.stringify(sent))
  }
})

described('has a page that needs no script and names every message', async () => {
  const response = await get('/docs/stream')
  const page = await response.text()
  assert.match(response.headers.get('content-security-policy') ?? '', "script-src 'self'")
  assert.not.match(page, '<script')
  for (const type of [...Object.keys(fromClient), ...Object.keys(fromService), 'ticketEvent'])
    assert.match(page, `<section id="${type}">`)
})

const consuming = suite("the guide's consumer")

/** Writes the consumer to a file, changed where `change` says so. */
async function writeConsumer(change = (code: string) => code): Promise<{ file: string; lines: string[] }> {
  const guide = await readFile('api/description/guides/events.md', 'utf8')
  const [, code] = /```js\n([\s\S]*?)```/.exec(guide) as unknown as [string, string]
  const file = join(tmpdir(), `consumer-${process.pid}.mjs`)
  await writeFile(file, change(code))
  return { file, lines: code.split('\n') }
}

consuming('connects again where the connection is dead, whose end nobody reports', async () => {
  const { file } = await writeConsumer(code => code.replace('25_000', '500'))
  const peers = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(peers, 'listening')
  const opened = once(peers, 'connection')
  const { port } = peers.address() as AddressInfo
  const consumer = startProcess(file, { STREAM: `ws://127.0.0.1:${port}`, KEY: 'any', CURSOR_FILE: `${file}.none` })
  const [, { socket }] = await opened
  // From here on the peer takes nothing and says nothing, as behind a network that is gone.
  socket.pause()
  await once(peers, 'connection', { signal: AbortSignal.timeout(20_000) })
  consumer.kill('SIGKILL')
  await consumer.ended
  for (const peer of peers.clients) peer.terminate()
  peers.close()
})

consuming('misses nothing while it, the api and the worker are killed', async () => {
  const { file, lines } = await writeConsumer()
  const ours = lines.filter(line => line.trim() !== '' && !line.startsWith('//') && !line.startsWith('import'))
  assert.ok(ours.length <= 35, `${ours.length} lines`)
  const partner = await harness.makePartner()
  let worker = await startWorker(harness.env)
  let api = await startApi(harness.env)
  const port = new URL(api.address).port
  const positions: number[] = []
  const env = { STREAM: api.address.replace('http', 'ws'), KEY: partner.key, CURSOR_FILE: `${file}.cursor` }
  const startConsumer = () => startProcess(file, env)
  let consumer = startConsumer()
  const collect = () => {
    positions.push(...consumer.lines.filter(line => /^\d+ /.test(line)).map(line => Number(line.split(' ')[0])))
    consumer.lines.length = 0
    return positions
  }
  await until('the subscription', () => readFile(`${file}.cursor`, 'utf8').catch(() => false), 20_000)
  const begun = (await readAll(partner)).events.length
  const write = () => Promise.all(Array.from({ length: 10 }, () => partner.makeTrader()))
  await write()
  await until('some events', () => collect().length >= 5, 20_000)
  // What it has written may still be in the pipe when it has ended.
  const drained = once(consumer.child, 'close')
  consumer.kill('SIGKILL')
  await drained
  collect()
  await write()
  consumer = startConsumer()
  await write()
  api.kill('SIGKILL')
  await api.ended
  await write()
  worker.kill('SIGKILL')
  await worker.ended
  await write()
  worker = await startWorker(harness.env)
  api = await startApiAt(port)
  await write()
  const total = 60
  await until('everything', () => new Set(collect()).size >= total, 40_000)
  const { events } = await readAll(partner)
  assert.is(events.length, begun + total)
  const first = positions
    .map((position, index) => (positions.indexOf(position) === index ? position : 0))
    .filter(Boolean)
  assert.equal(
    first,
    events.slice(-total).map(({ position }) => position)
  )
})

async function startApiAt(port: string) {
  const api = startProcess('api/main.ts', { ...harness.env, LOG_LEVEL: 'info', PORT: port })
  const line = await api.line(/"msg":"listening"/)
  return { ...api, address: (JSON.parse(line) as { address: string }).address }
}

consuming.after(closeAll)
described.run()
consuming.run()

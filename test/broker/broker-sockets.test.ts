// One connection to a broker that loses, delays, doubles and garbles: every call ends in one way, and only a call
// that was written can be in doubt.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect, createServer, type Socket } from 'node:net'
import { connect as connectTls, createServer as createServerOfTls, type TLSSocket } from 'node:tls'
import { Worker } from 'node:worker_threads'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { BrokerError } from '../../worker/broker/broker-error.ts'
import { breakOff } from '../../worker/broker/transport/opening.ts'
import {
  BrokerConnection,
  type CallOptions,
  type ConnectionOptions,
  type Frame,
  type Stream
} from '../../worker/broker/transport/sockets.ts'
import { stretched } from '../support/busy.ts'
import { makeCertificate } from '../support/certificate.ts'
import { closeAll, FEW_LOOKS_MS, until } from '../support/harness.ts'
import { failure, keptLog, reply, type Script, scriptedBroker, within } from './broker-script.ts'

const calls = suite('a call over a connection')
const streams = suite('a stream over a connection')
const opening = suite('opening a connection')

const order: CallOptions = { responseKey: 'buy', timeoutMs: 20_000, mayRun: true }
const read: CallOptions = { responseKey: 'balance', timeoutMs: 20_000 }

/** A connection to a scripted broker. */
async function connected(script: Script, options: Partial<ConnectionOptions> = {}) {
  const broker = await scriptedBroker(script)
  const counters = { invalid: 0, stray: 0, unreadable: 0 }
  const { log, lines } = keptLog()
  const gone = Promise.withResolvers<BrokerError>()
  const settings = { url: broker.url, connectTimeoutMs: 20_000, log, counters, onClose: gone.resolve, ...options }
  const connection = await BrokerConnection.open(settings)
  const close = async () => {
    connection.close()
    await broker.close()
  }
  return { broker, connection, counters, lines, gone: gone.promise, close }
}

function newFrameRecorder(): { stream: Stream; frames: Frame[] } {
  const frames: Frame[] = []
  return { frames, stream: { receive: frame => frames.push(frame) > 0 } }
}

opening('fails as not run when the port is closed, silent or refuses', async () => {
  const options = {
    connectTimeoutMs: 20_000,
    counters: { invalid: 0, stray: 0, unreadable: 0 },
    onClose() {},
    log: keptLog().log
  }
  const nobody = await failure(BrokerConnection.open({ ...options, url: 'ws://127.0.0.1:1/' }))
  assert.is(nobody.brokerCode, 'NotConnected')
  const silent = createServer(() => undefined).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const mute = await failure(
    BrokerConnection.open({
      ...options,
      connectTimeoutMs: 200,
      url: `ws://127.0.0.1:${(silent.address() as AddressInfo).port}/`
    })
  )
  assert.is(mute.brokerCode, 'NotConnected')
  silent.close()
  const refusing = createServer(socket => socket.end('HTTP/1.1 503 Unavailable\r\nConnection: close\r\n\r\n')).listen(
    0,
    '127.0.0.1'
  )
  await once(refusing, 'listening')
  const refused = await failure(
    BrokerConnection.open({ ...options, url: `ws://127.0.0.1:${(refusing.address() as AddressInfo).port}/` })
  )
  assert.is(refused.brokerCode, 'Refused')
  assert.is(refused.cause, 'status 503')
  refusing.close()
  for (const error of [nobody, mute, refused]) {
    assert.is(error.code, 'BROKER_UPSTREAM')
    assert.is(error.ran, 'no')
  }
})

opening('receives what comes in one packet with the consent to open, also the end', async () => {
  // Unmasked text frame '[]' (no JSON object, so it is counted), then a close frame with code 1001.
  const frames = Buffer.from([0x81, 2, ...Buffer.from('[]'), 0x88, 2, 0x03, 0xe9])
  const hasty = createServer(socket =>
    socket.once('data', request => {
      const key = /^sec-websocket-key: (.+)\r$/im.exec(String(request))?.[1]
      const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
      const consent = [
        'HTTP/1.1 101 Yes',
        'Upgrade: websocket',
        'Connection: Upgrade',
        `Sec-WebSocket-Accept: ${accept}`
      ]
      socket.end(Buffer.concat([Buffer.from(`${consent.join('\r\n')}\r\n\r\n`), frames]))
    })
  ).listen(0, '127.0.0.1')
  await once(hasty, 'listening')
  const counters = { invalid: 0, stray: 0, unreadable: 0 }
  const url = `ws://127.0.0.1:${(hasty.address() as AddressInfo).port}/`
  const ended = await within<BrokerError>('the end', onClose => {
    const { log } = keptLog()
    void BrokerConnection.open({ url, connectTimeoutMs: 20_000, counters, log, onClose })
  })
  assert.is(ended.cause, 'closed with 1001')
  assert.is(counters.invalid, 1)
  hasty.close()
})

opening('can be undone at any moment, also while the end is being sent', async () => {
  const server = createServer({ allowHalfOpen: true }, socket => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  for (const prepare of [
    (socket: Socket) => socket.end(),
    (socket: Socket) => socket.end('more than nothing'),
    (socket: Socket) => socket.write(Buffer.alloc(20_000_000)),
    () => {}
  ]) {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    await once(socket, 'connect')
    const closed = within<void>('the close', resolve => socket.once('close', () => resolve()))
    prepare(socket)
    breakOff(socket)
    await closed
  }
  server.close()
})

opening('can be undone at any moment below TLS as well, and the process lives on', async () => {
  const { cert, key } = await makeCertificate()
  const server = createServerOfTls({ cert, key }, socket => socket.on('error', () => {})).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const moments: { ending: boolean; prepare(above: TLSSocket): void }[] = [
    { ending: false, prepare() {} },
    { ending: false, prepare: above => above.write(Buffer.alloc(5_000_000)) },
    { ending: true, prepare() {} },
    { ending: true, prepare: above => above.end() }
  ]
  for (const { ending, prepare } of moments) {
    const socket = connect({ port, host: '127.0.0.1' })
    const above = connectTls({ socket: socket, servername: 'localhost', rejectUnauthorized: false })
    above.on('error', () => {})
    await once(above, 'secureConnect')
    prepare(above)
    await within<void>('the close', closed => {
      const afterwards = () => {
        above.destroy()
        closed()
      }
      breakOff(socket, { ending, afterwards })
    })
    assert.ok(socket.destroyed)
  }
  server.close()
})

calls('sends nothing when the permission is refused at the last moment', async () => {
  const { broker, connection, close } = await connected((frame, socket) => reply(socket, frame, { balance: {} }))
  const refusal = () => {
    throw new Error('too late')
  }
  const error = await failure(connection.call({ buy: '1' }, { ...order, beforeSend: refusal }))
  assert.is(error.brokerCode, 'PermitExpired')
  assert.is(error.ran, 'no')
  await connection.call({ balance: 1 }, read)
  assert.is(broker.received.length, 1)
  await close()
})

calls('is written in the very turn in which its permission was given', async () => {
  const { broker, connection, close } = await connected((frame, socket) => reply(socket, frame, { buy: {} }))
  const steps: string[] = []
  const done = connection
    .call({ buy: '1' }, { ...order, beforeSend: () => steps.push('permitted') })
    .then(() => steps.push('responded'))
  steps.push('returned')
  await done
  assert.equal(steps, ['permitted', 'returned', 'responded'])
  assert.is(broker.received.length, 1)
  await close()
})

calls('has not run when the connection is already gone, before its permission is requested', async () => {
  const { connection, close } = await connected(() => undefined)
  connection.close()
  let permitted = false
  const beforeSend = () => {
    permitted = true
  }
  const error = await failure(connection.call({ buy: '1' }, { ...order, beforeSend }))
  assert.is(error.brokerCode, 'NotConnected')
  assert.is(error.ran, 'no')
  assert.not(permitted)
  await close()
})

calls('has not run when the connection goes away while its permission is given', async () => {
  const { broker, connection, close } = await connected(() => undefined)
  const error = await failure(connection.call({ buy: '1' }, { ...order, beforeSend: () => connection.close() }))
  assert.is(error.ran, 'no')
  assert.is(broker.received.length, 0)
  await close()
})

calls('is in doubt without a response when it changes something, and only then', async () => {
  const { connection, close } = await connected(() => undefined)
  const [buy, balance] = await Promise.all([
    failure(connection.call({ buy: '1' }, { ...order, timeoutMs: 50 })),
    failure(connection.call({ balance: 1 }, { ...read, timeoutMs: 50 }))
  ])
  assert.is(buy.brokerCode, 'NoAnswer')
  assert.is(buy.ran, 'unknown')
  assert.is(balance.ran, 'no')
  await close()
})

calls('is in doubt when the connection drops after it was written', async () => {
  const { connection, gone, close } = await connected((_frame, socket) => socket.terminate())
  const [buy, balance] = await Promise.all([
    failure(connection.call({ buy: '1' }, order)),
    failure(connection.call({ balance: 1 }, read))
  ])
  assert.is(buy.brokerCode, 'Disconnected')
  assert.is(buy.ran, 'unknown')
  assert.is(balance.brokerCode, 'Disconnected')
  assert.is(balance.ran, 'no')
  assert.is((await gone).brokerCode, 'Disconnected')
  await close()
})

calls('is no longer waited for when its caller gives up', async () => {
  const { broker, connection, close } = await connected(() => undefined)
  const off = new AbortController()
  const buy = failure(connection.call({ buy: '1' }, { ...order, signal: off.signal }))
  await broker.got('buy')
  off.abort()
  assert.is((await buy).ran, 'unknown')
  const later = await failure(connection.call({ buy: '1' }, { ...order, signal: off.signal }))
  assert.is(later.ran, 'no')
  assert.is(broker.received.length, 1)
  await close()
})

calls('gets its own response, whatever the order they come in', async () => {
  const waiting: (() => void)[] = []
  const { connection, close } = await connected((frame, socket) => {
    waiting.unshift(() => reply(socket, frame, { balance: { of: frame.account } }))
    if (waiting.length === 20) for (const respond of waiting) respond()
  })
  const sent = Array.from({ length: 20 }, (_, at) => connection.call({ balance: 1, account: `A${at}` }, read))
  const responses = await Promise.all(sent)
  assert.equal(
    responses.map(each => (each.balance as { of: string }).of),
    Array.from({ length: 20 }, (_, at) => `A${at}`)
  )
  await close()
})

calls('gets a response whose number is in the repeated request alone, and one whose error is null', async () => {
  const { connection, close } = await connected(({ req_id, ...request }, socket) => {
    const error = request.buy === undefined ? null : { code: 'RateLimit', message: 'Too many calls.' }
    socket.send(JSON.stringify({ echo_req: { ...request, req_id }, balance: { right: true }, error }))
  })
  assert.equal((await connection.call({ balance: 1 }, read)).balance, { right: true })
  const refused = await failure(connection.call({ buy: '1' }, order))
  assert.equal([refused.brokerCode, refused.ran], ['RateLimit', 'no'])
  await close()
})

calls('takes a frame of its own type for the response, also without a body, and no update of its stream', async () => {
  const { connection, close } = await connected((frame, socket) => {
    reply(socket, frame, { msg_type: 'proposal_open_contract', proposal_open_contract: {} })
    reply(socket, frame, { msg_type: 'transaction', subscription: { id: 'one' } })
  })
  const { stream } = newFrameRecorder()
  const first = await connection.call({ transaction: 1 }, { responseKey: 'transaction', timeoutMs: 20_000, stream })
  assert.equal([first.msg_type, first.transaction], ['transaction', undefined])
  await close()
})

calls('ignores and counts responses that are doubled, late, or that nobody requested', async () => {
  const { connection, counters, close } = await connected((frame, socket) => {
    if (frame.late === true) return
    reply(socket, { req_id: 1 } as never, { balance: { late: true } })
    reply(socket, { req_id: 987_654 } as never, { balance: { unknown: true } })
    reply(socket, frame, { balance: { right: true } })
    reply(socket, frame, { balance: { doubled: true } })
  })
  await failure(connection.call({ balance: 1, late: true }, { ...read, timeoutMs: 50 }))
  assert.equal((await connection.call({ balance: 1 }, read)).balance, { right: true })
  await connection.call({ balance: 1 }, read)
  assert.ok(counters.stray >= 5, String(counters.stray))
  await close()
})

calls('survives frames that are no JSON objects, until there are too many', async () => {
  const { connection, counters, lines, gone, close } = await connected((frame, socket) => {
    if (frame.flood === true) for (let each = 0; each < 60; each++) socket.send('nonsense')
    for (const text of ['{', '[]', 'null', '7', '"x"']) socket.send(text)
    socket.send(Buffer.from('{"balance":{}}'), { binary: true })
    reply(socket, frame, { balance: { right: true } })
  })
  assert.equal((await connection.call({ balance: 1 }, read)).balance, { right: true })
  assert.is(counters.invalid, 6)
  assert.is(lines.length, 1)
  await failure(connection.call({ balance: 1, flood: true }, read))
  assert.is((await gone).cause, 'too many unreadable frames')
  await close()
})

calls('ends in doubt when the response is larger than any should be', async () => {
  const { connection, close } = await connected((_frame, socket) =>
    socket.send(`{"buy":"${'x'.repeat(17 * 1024 * 1024)}"}`)
  )
  const error = await failure(connection.call({ buy: '1' }, order))
  assert.is(error.brokerCode, 'Disconnected')
  assert.is(error.ran, 'unknown')
  await close()
})

calls('is refused beyond a bound of calls under way', async () => {
  const { connection, close } = await connected(() => undefined)
  const under = Array.from({ length: 500 }, () => failure(connection.call({ balance: 1 }, read)))
  const error = await failure(connection.call({ buy: '1' }, order))
  assert.is(error.brokerCode, 'TooManyPending')
  assert.is(error.ran, 'no')
  await close()
  for (const each of await Promise.all(under)) assert.is(each.ran, 'no')
})

calls('ends when the broker no longer replies to pings', async () => {
  const { connection, gone, close } = await connected(() => undefined, { pingEveryMs: 50, pongWithinMs: 50 })
  const error = await failure(connection.call({ buy: '1' }, order))
  assert.is(error.ran, 'unknown')
  assert.is((await gone).cause, 'no pong: NoAnswer')
  await close()
})

for (const [call, options, code] of [
  ['buy', order, 1006],
  ['balance', read, 1000]
] as const)
  calls(
    `is ${code === 1006 ? 'broken off with' : 'left to'} a connection that is closed under it (${call})`,
    async () => {
      const closed = Promise.withResolvers<number>()
      const { broker, connection, close } = await connected((_frame, socket) => socket.on('close', closed.resolve))
      const error = failure(connection.call({ [call]: '1' }, options))
      await broker.got(call)
      connection.close()
      assert.is((await error).brokerCode, 'Disconnected')
      assert.is(await closed.promise, code)
      await close()
    }
  )

calls("has the broker's reason for closing a connection, where the broker sent one", async () => {
  const { connection, close } = await connected((_frame, socket) => {
    socket.send(
      JSON.stringify({ error: { code: 'InvalidAppID', message: 'Your app_id is invalid.' }, msg_type: 'error' })
    )
    socket.close(1008)
  })
  const [balance, buy] = await Promise.all([
    failure(connection.call({ balance: 1 }, read)),
    failure(connection.call({ buy: '1' }, order))
  ])
  assert.is(balance.brokerCode, 'InvalidAppID')
  assert.is(buy.ran, 'unknown')
  await close()
})

const poc = (fields: object, subscription: string | null = 'sub-1') => ({
  proposal_open_contract: fields,
  ...(subscription === null ? {} : { subscription: { id: subscription } })
})

calls('ends, and its connection with it, when a frame cannot be handled at all', async () => {
  const log = keptLog().log
  const warn = () => {
    throw new Error('not even logged')
  }
  const script: Script = (_frame, socket) => socket.send(JSON.stringify({ error: { code: 'Broken', message: 'all' } }))
  const { connection, gone, close } = await connected(script, { log: { ...log, warn } as typeof log })
  const ended = await failure(connection.call({ buy: 1 }, order))
  assert.equal([ended.brokerCode, ended.ran], ['Disconnected', 'unknown'])
  await gone
  await close()
})

calls('survives values that cannot be written as text', async () => {
  const hostile = { toString: 1, valueOf: 1 }
  const { connection, counters, close } = await connected((frame, socket) => {
    if (frame.buy !== undefined)
      reply(socket, frame, { error: { code: 'InvalidOfferings', message: 'no', code_args: [hostile, 7] } })
    else if (frame.ticks !== undefined) reply(socket, frame, { tick: {}, msg_type: hostile, subscription: { id: 's' } })
    else reply(socket, frame, { balance: {} })
  })
  assert.is((await failure(connection.call({ buy: 1 }, order))).brokerCode, 'InvalidOfferings')
  const deaf: Stream = {
    receive() {
      throw new Error('not for me')
    }
  }
  assert.ok(await connection.call({ ticks: 1 }, { responseKey: 'tick', timeoutMs: 20_000, stream: deaf }))
  assert.is(counters.unreadable, 1)
  assert.ok(await connection.call({ balance: 1 }, read))
  await close()
})

streams('receives its response first, then every update, by number or by id', async () => {
  const { connection, close } = await connected((frame, socket) => {
    if (frame.forget !== undefined) return
    reply(socket, frame, poc({ n: 1 }))
    reply(socket, frame, poc({ n: 2 }, null))
    socket.send(JSON.stringify(poc({ n: 3 })))
    reply(socket, { req_id: 2 } as never, { balance: {} })
  })
  const { stream, frames } = newFrameRecorder()
  const balance = { responseKey: 'balance', timeoutMs: 20_000 }
  await connection.call(
    { proposal_open_contract: 1 },
    { responseKey: 'proposal_open_contract', timeoutMs: 20_000, stream }
  )
  await connection.call({ balance: 1 }, balance).catch(() => undefined)
  assert.equal(
    frames.slice(0, 3).map(each => (each.proposal_open_contract as { n: number }).n),
    [1, 2, 3]
  )
  await close()
})

streams('receives updates that overtook the response to its purchase', async () => {
  const { connection, counters, close } = await connected((frame, socket) => {
    reply(socket, frame, poc({ n: 'by number' }))
    socket.send(JSON.stringify(poc({ n: 'by id' }, 'sub-2')))
    reply(socket, frame, { buy: {}, subscription: { id: 'sub-2' } })
  })
  const { stream, frames } = newFrameRecorder()
  await connection.call({ buy: '1' }, { ...order, stream })
  assert.equal(
    frames.map(each => (each.proposal_open_contract as { n?: string } | undefined)?.n ?? 'response'),
    ['by number', 'response', 'by id']
  )
  assert.is(counters.stray, 0)
  await close()
})

streams('that no listener holds is forgotten at the broker, once', async () => {
  const { broker, connection, counters, close } = await connected((frame, socket) => {
    if (frame.forget !== undefined) {
      reply(socket, frame, { forget: 1 })
      return
    }
    for (let each = 0; each < 3; each++) socket.send(JSON.stringify(poc({ n: each }, 'sub-of-nobody')))
    reply(socket, frame, { balance: {} })
  })
  await connection.call({ balance: 1 }, read)
  await connection.call({ balance: 1 }, read)
  assert.is((await broker.got('forget')).length, 1)
  assert.is(broker.received.find(each => each.forget !== undefined)!.forget, 'sub-of-nobody')
  assert.is(counters.stray, 6)
  await close()
})

streams('of a refused call is not delivered', async () => {
  const { connection, close } = await connected((frame, socket) => {
    reply(socket, frame, { msg_type: 'buy', error: { code: 'RateLimit', message: 'slow' } })
    reply(socket, frame, poc({}, null))
  })
  const { stream, frames } = newFrameRecorder()
  const error = await failure(connection.call({ buy: '1' }, { ...order, stream }))
  assert.is(error.brokerCode, 'RateLimit')
  assert.is(frames.length, 0)
  await close()
})

streams('that fails on a frame harms nobody else', async () => {
  const { connection, counters, close } = await connected((frame, socket) => reply(socket, frame, poc({})))
  const stream: Stream = {
    receive: () => {
      throw new Error('unreadable')
    }
  }
  await connection.call({ x: 1 }, { responseKey: 'proposal_open_contract', timeoutMs: 20_000, stream })
  assert.is(counters.unreadable, 1)
  await close()
})

streams('is forgotten at the broker when it is no longer wanted', async () => {
  const { broker, connection, close } = await connected((frame, socket) => {
    if (frame.forget === undefined) reply(socket, frame, poc({}, 'sub-9'))
  })
  const { stream } = newFrameRecorder()
  await connection.call({ x: 1 }, { responseKey: 'proposal_open_contract', timeoutMs: 20_000, stream })
  void connection.forget(stream)
  void connection.forget(stream)
  assert.is((await broker.got('forget'))[0]!.forget, 'sub-9')
  await close()
})

calls('under way may end on a connection that is retired, which then closes', async () => {
  const held = Promise.withResolvers<() => void>()
  const { connection, gone, close } = await connected((frame, socket) =>
    held.resolve(() => reply(socket, frame, { balance: { right: true } }))
  )
  const balance = connection.call({ balance: 1 }, read)
  const respond = await held.promise
  connection.retire(5_000)
  assert.not(connection.usable)
  respond()
  assert.equal((await balance).balance, { right: true })
  await within('the close', resolve => void gone.then(resolve))
  await close()
})

// In a thread of its own, so that it responds while the thread of the test is blocked.
const responding = `
  const { parentPort } = require('node:worker_threads')
  const { WebSocketServer } = require('ws')
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' }, () => parentPort.postMessage(server.address().port))
  server.on('connection', socket => socket.on('message', text => {
    const { req_id } = JSON.parse(text)
    socket.send(JSON.stringify({ buy: { contract_id: 5 }, ping: 'pong', req_id }))
  }))`

calls('ends with the response that arrived in time, although the process was held up past its time-out', async () => {
  const broker = new Worker(responding, { eval: true })
  const [port] = (await once(broker, 'message')) as [number]
  const gone = Promise.withResolvers<BrokerError>()
  const connection = await BrokerConnection.open({
    url: `ws://127.0.0.1:${port}/`,
    connectTimeoutMs: 20_000,
    counters: { invalid: 0, stray: 0, unreadable: 0 },
    log: keptLog().log,
    onClose: gone.resolve,
    pingEveryMs: 10,
    pongWithinMs: 100
  })
  const bought = connection.call({ buy: '1' }, { ...order, timeoutMs: 100 })
  // Nothing of this process runs meanwhile, as while it is stopped, or collects garbage.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stretched(500))
  assert.equal((await bought).buy, { contract_id: 5 })
  assert.ok(connection.open)
  connection.close()
  await gone.promise
  await broker.terminate()
})

calls('are under way in such number that no ping can be sent, and only a mute broker is given up for it', async () => {
  /** How many of as many calls as there may be get a response, and why the connection ended. */
  const makeMany = async ({ mute }: { mute: boolean }) => {
    const held: (() => void)[] = []
    let sending: NodeJS.Timeout | undefined
    const { connection, gone, close } = await connected(
      (frame, socket) => {
        held.push(() => reply(socket, frame, { balance: {} }))
        if (held.length < 500 || mute) return
        let sent = 0
        // For longer than it is between two pings.
        sending = setInterval(() => {
          socket.send(JSON.stringify({ msg_type: 'tick' }))
          if (++sent < 130) return
          clearInterval(sending)
          for (const respond of held) respond()
        }, 20)
      },
      { pingEveryMs: 1_000 }
    )
    const patient = { ...read, timeoutMs: 60_000 }
    const all = Array.from({ length: 500 }, () => connection.call({ balance: 1 }, patient))
    assert.is((await failure(connection.call({ balance: 1 }, read))).brokerCode, 'TooManyPending')
    const ended = await Promise.allSettled(all)
    clearInterval(sending)
    await close()
    return { responded: ended.filter(({ status }) => status === 'fulfilled').length, cause: (await gone).cause }
  }
  // To this process the broker is mute as well while a busy machine keeps it waiting: then once more.
  await until('a response to each', async () => (await makeMany({ mute: false })).responded === 500, FEW_LOOKS_MS)
  const { responded, cause } = await makeMany({ mute: true })
  assert.is(responded, 0)
  assert.match(String(cause), 'no pong')
})

streams.after(closeAll)
opening.run()
calls.run()
streams.run()

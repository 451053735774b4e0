// How long requests may have waited before they are read: for a process that did not run, and for their connection to be accepted.
import { EventEmitter } from 'node:events'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openStalls } from '../../api/request/stalls.ts'

const stalls = suite('a request')
const turn = () => new Promise(resolve => setImmediate(resolve))

/** Stalls on a clock of the test's own: it passes while the process runs, or while it is stopped. */
function open() {
  let now = 0
  let tick = () => {}
  const server = new EventEmitter()
  const { watch, read, lostMs } = openStalls(
    () => now,
    (_, run) => {
      tick = run
      return () => {}
    }
  )
  watch(server)
  const connect = () => {
    const socket = {}
    server.emit('connection', socket)
    return socket
  }
  const pass = (ms: number) => {
    for (const end = now + ms; now < end; tick()) now = Math.min(end, now + 10)
  }
  const stop = (ms: number) => {
    now += ms
  }
  return { read, lostMs, connect, pass, stop }
}

stalls('is as old as it has been read, while the process runs', () => {
  const { read, connect, pass } = open()
  const ageMs = read(connect())
  assert.is(ageMs(), 0)
  pass(300)
  assert.is(ageMs(), 300)
})

stalls('may be as old as the stall that was just over', () => {
  const { read, stop } = open()
  stop(70_000)
  assert.is(read()(), 70_000)
})

stalls(
  'may be as old as the first connection that waited with its own, however long accepting them takes',
  async () => {
    const { read, connect, pass, stop } = open()
    stop(70_000)
    // One in each turn.
    for (let each = 0; each < 100; each++) {
      const socket = connect()
      pass(80)
      assert.ok(read(socket)() >= 70_000, `connection ${each}`)
      await turn()
    }
    // A turn without one: the kernel keeps none any more.
    await turn()
    await turn()
    const socket = connect()
    assert.is(read(socket)(), 0)
    // The next request on it is another one.
    pass(50)
    assert.is(read(socket)(), 0)
  }
)

stalls('is no older than the connections before it that the kernel can have kept', async () => {
  const { read, connect, pass, stop } = open()
  stop(70_000)
  let ageMs = Infinity
  for (let each = 0; each < 600; each++) {
    ageMs = read(connect())()
    pass(10)
    await turn()
  }
  assert.is(ageMs, 5120)
})

stalls('is not held to what the process did not run of the last minute', () => {
  const { lostMs, pass, stop } = open()
  pass(5000)
  assert.is(lostMs(), 0)
  stop(4000)
  assert.equal([lostMs(), lostMs()], [4000, 4000])
  pass(2000)
  stop(5000)
  // Up to when it has run again.
  assert.is(lostMs(), 9010)
  pass(53_500)
  assert.is(lostMs(), 5010)
  pass(10_000)
  assert.is(lostMs(), 0)
})

stalls.run()

// Counters and places while the wall clock of a process is wrong or is set back: they go by clocks that are not.
import { Redis } from 'ioredis'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openLimits } from '../../db/platform/limits.ts'
import { openLog } from '../../db/platform/log.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { closeAll, onClose, until } from '../support/harness.ts'
import { startMovingAddress, startRedis } from '../support/redis.ts'

const HOUR_MS = 3_600_000
const log = openLog({ level: 'silent', name: 'test' })
const redis = await startRedis()

/** Runs `work` with a wall clock that is off. */
async function withClockOff<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const right = Date.now
  Date.now = () => right() + ms
  try {
    return await work()
  } finally {
    Date.now = right
  }
}

const windows = suite('a window')

windows('of a clock that is set back shows no more time than it has left at most', async () => {
  const limits = await openLimits({ log })
  onClose(() => limits.close())
  await limits.hit('a', 1)
  await limits.hit('b', 5, 900)
  await withClockOff(-HOUR_MS, async () => {
    assert.equal(await limits.hit('a', 1), { allowed: false, limit: 1, remaining: 0, resetSeconds: 60 })
    assert.is((await limits.hit('b', 5, 900)).resetSeconds, 900)
  })
})

const held = suite('places of several processes')

held('are held by the clock of Redis, not by those of the processes', async () => {
  if (!redis) return
  const open = async () => {
    const limits = await openLimits({ redisUrl: redis.url, log })
    onClose(() => limits.close())
    return limits
  }
  const client = new Redis(redis.url)
  onClose(async () => client.disconnect())
  const [ahead, behind, right] = [await open(), await open(), await open()]
  // Each connects by itself.
  for (const limits of [ahead, behind, right]) {
    for (let taken = 0; taken === 0; ) {
      const place = await limits.hold('warm', 1)
      taken = await client.zcard('svc_held:warm')
      place?.release()
    }
  }
  // A process to which Redis does not respond within half a second counts for itself, as happens on a busy machine: it is held again then.
  const holdInRedis = (name: string, hold: () => ReturnType<typeof right.hold>) =>
    until('a place in Redis', async () => {
      const place = await hold()
      assert.ok(place)
      if ((await client.zcard(`svc_held:${name}`)) === 1) return place
      place?.release()
      return undefined
    })
  const refusal = (name: string) => async () => {
    const place = await right.hold(name, 1)
    place?.release()
    return place === null
  }
  await holdInRedis('ahead', () => withClockOff(HOUR_MS, () => ahead.hold('ahead', 1)))
  await until('a refusal', refusal('ahead'))
  const [, end] = await client.zrange('svc_held:ahead', '0', '0', 'WITHSCORES')
  const leftMs = Number(end) - Date.now()
  assert.ok(leftMs > 0 && leftMs <= 30_000, `its place ends in ${leftMs} ms`)
  await holdInRedis('behind', () => withClockOff(-HOUR_MS, () => behind.hold('behind', 1)))
  await until('a refusal', refusal('behind'))
})

/** A client that sees whether what `limits` counts is in Redis. */
function watching(limits: Awaited<ReturnType<typeof openLimits>>, url: string) {
  const client = new Redis(url)
  onClose(async () => client.disconnect())
  const counted = async (name: string) => {
    await limits.hit(name, 1000)
    return client.exists(`svc_rate:${name}`)
  }
  return { client, counted }
}

const hanging = suite('a Redis that hangs')

hanging('holds no request up for longer than it takes to notice, and counts again when it is back', async () => {
  if (!redis) return
  const network = await FaultyNetwork.open(Number(new URL(redis.url).port))
  onClose(() => network.close())
  const limits = await openLimits({ redisUrl: `redis://127.0.0.1:${network.port}`, log })
  onClose(() => limits.close())
  const { counted } = watching(limits, redis.url)
  await until('counts in Redis', () => counted('before'))
  const [open, coming] = [network.hold(() => true, 'both'), network.holdNew()]
  await until('requests that do not wait', async () => {
    const from = performance.now()
    for (let hit = 0; hit < 4; hit++) await limits.hit('hanging', 1000)
    return performance.now() - from < 400
  })
  open.release()
  coming.release()
  await until('counts in Redis again', () => counted('after'))
})

const paused = suite('a Redis that responds and takes no writes')

paused('as while it fails over holds up the first requests alone, and counts again when it does', async () => {
  // Of its own: who is connected to it is looked at.
  const own = await startRedis()
  if (!own) return
  const limits = await openLimits({ redisUrl: own.url, log })
  onClose(() => limits.close())
  const { client, counted } = watching(limits, own.url)
  await until('counts in Redis', () => counted('before a pause'))
  await client.call('CLIENT', 'PAUSE', '600000', 'WRITE')
  // Each takes half a second where it waits for a response. On a busy machine some take as long all the same.
  let slow = 0
  const timed = async <T>(count: () => Promise<T>): Promise<T> => {
    const from = performance.now()
    const counted = await count()
    if (performance.now() - from > 450) slow++
    return counted
  }
  for (let hit = 0; hit < 10; hit++) {
    // Its client reconnects each time that it has waited in vain, and does not notice more.
    await until('its connection', async () => / cmd=(info|evalsha|eval|set) /.test(String(await client.client('LIST'))))
    await timed(() => limits.hit('paused', 1000))
    assert.ok(await timed(() => limits.hold(`paused ${hit}`, 1)))
  }
  await client.call('CLIENT', 'UNPAUSE')
  assert.ok(slow < 9, `${slow} of 20 counts took long`)
  await until('counts in Redis again', () => counted('after a pause'))
})

const scriptless = suite('a Redis whose user may run no scripts')

scriptless('is logged once, and counts again when it may', async () => {
  if (!redis) return
  const admin = new Redis(redis.url)
  onClose(async () => admin.disconnect())
  const rights = (...rules: string[]) => admin.call('ACL', 'SETUSER', 'limited', ...rules)
  await rights('on', '>secret', '~*', '&*', '+@all')
  const warnings: string[] = []
  const noting = Object.assign(Object.create(log), { warn: (_: object, text: string) => void warnings.push(text) })
  const limits = await openLimits({ redisUrl: redis.url.replace('//', '//limited:secret@'), log: noting })
  onClose(() => limits.close())
  const { counted } = watching(limits, redis.url)
  await until('counts in Redis', () => counted('with scripts'))
  await rights('-@scripting')
  for (let looks = 0; looks < 2; looks++)
    await until('the line', async () => !(await counted(`without ${looks}`)) && warnings.length > 0)
  await rights('+@scripting')
  await until('counts in Redis again', () => counted('with scripts again'))
  assert.equal(warnings, ['Redis takes no writes'])
})

const demoted = suite('a Redis that has become a replica')

demoted('is left for the primary that its address leads to by now', async () => {
  const next = await startRedis()
  if (!redis || !next) return
  const address = await startMovingAddress(redis)
  const limits = await openLimits({ redisUrl: address.url, log })
  onClose(() => limits.close())
  const [old, primary] = [new Redis(redis.url), new Redis(next.url)]
  for (const client of [old, primary]) onClose(async () => client.disconnect())
  await until('counts in Redis', async () => {
    await limits.hit('before it', 1000)
    return old.exists('svc_rate:before it')
  })
  address.moveTo(next)
  await old.replicaof('127.0.0.1', new URL(next.url).port)
  await until('counts in the new one', async () => {
    await limits.hit('after it', 1000)
    return primary.exists('svc_rate:after it')
  })
  await old.replicaof('NO', 'ONE')
})

demoted.after(closeAll)
for (const tests of [windows, held, hanging, paused, scriptless, demoted]) tests.run()

// test in the full run only
// A request under an Idempotency-Key whose process is killed, and one that takes its time.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCommunityBot } from '../../api/community/bots.ts'
import { call, closeAll, openHarness, until } from '../support/harness.ts'
import { startApi } from '../support/processes.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()

const bot = (name: string) => ({ name, config: {} })
const create = (name: string, key: string) =>
  partner.call(createCommunityBot, { body: bot(name), headers: { 'idempotency-key': key } })
const botsNamed = (name: string) => db('community_bots').where({ name, partner_id: partner.partnerId })

const killed = suite('a request whose process is killed')

/** Requests a bot of this name under a key, at an api that holds it up until `go` is called. */
async function heldUp(address: string, name: string) {
  const lock = await db.transaction()
  await lock.raw('lock table community_bots in access exclusive mode')
  const key = randomUUID()
  const headers = { authorization: `Bearer ${partner.key}`, 'idempotency-key': key }
  const requested = call(address, createCommunityBot, { body: bot(name), headers })
  requested.catch(() => {})
  await until('the key to be taken', async () => (await db('idempotency_keys').where({ key })).length > 0)
  return { key, requested, go: () => lock.commit() }
}

killed('can be requested again within the seconds that Retry-After shows', async () => {
  const api = await startApi(harness.env)
  const { key, go } = await heldUp(api.address, 'killed')
  api.kill('SIGKILL')
  await api.ended
  await go()
  // What was sent later than the first refusal shows is not refused, however slow the machine is.
  let freeAt = Number.POSITIVE_INFINITY
  const again = await until('its repeat', async () => {
    const sentAt = performance.now()
    const response = await create('killed', key)
    if (response.status === 200) return response
    assert.is(response.body.error, 'IDEMPOTENCY_IN_PROGRESS')
    assert.ok(sentAt < freeAt, 'refused for longer than Retry-After shows')
    const seconds = Number(response.headers.get('retry-after'))
    assert.ok(seconds >= 1 && seconds <= 5, `${seconds} s`)
    freeAt = Math.min(freeAt, performance.now() + 1000 * seconds)
    return undefined
  })
  assert.ok(freeAt < Number.POSITIVE_INFINITY, 'its first repeat is refused')
  assert.is(again.headers.get('idempotent-replayed'), null)
  assert.is((await botsNamed('killed')).length, 1)
})

killed('is not what a request is that takes longer than a lease: its process holds on to the key', async () => {
  const { key, requested, go } = await heldUp(harness.address, 'slow')
  const [{ leased_until: first }] = await db('idempotency_keys').where({ key })
  await until('the first lease to end', async () => {
    const { rows: found } = await db.raw('select clock_timestamp() > ? as over', [first])
    return found[0].over
  })
  const repeat = await create('slow', key)
  assert.is(repeat.body.error, 'IDEMPOTENCY_IN_PROGRESS')
  await go()
  assert.is((await requested).status, 200)
  const replayed = await create('slow', key)
  assert.equal([replayed.status, replayed.headers.get('idempotent-replayed')], [200, 'true'])
  assert.is((await botsNamed('slow')).length, 1)
})

killed.after(closeAll)
killed.run()

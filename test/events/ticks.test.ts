// Ticks on the stream: what a subscription gets, its bounds, and what keeps a tick from coming twice or never. The messages of
// the forwarding worker are written by the test where their order matters.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createStreamTicket } from '../../api/events/stream/tickets.ts'
import { Ticks } from '../../api/events/stream/ticks.ts'
import { listWantedTicks, tickChannelOf } from '../../db/events/ticks.ts'
import { dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { type Client, type Message, openClient, refusedUpgrade } from './client.ts'

const harness = await openHarness()
const { db, bus } = harness.services
const { address } = harness

const connect = (partner: TestPartner) => openClient(address, { key: partner.key })
async function subscribe(client: Client, assets: string[], id = 'prices') {
  client.send({ type: 'subscribe', id, channel: 'ticks', assets })
  return client.take('subscribed', message => message.id === id)
}
const wanted = async (...assets: string[]) =>
  until(`${assets} to be wanted`, async () => {
    const found = (await listWantedTicks(db)).find(each => each.dialect === dialect)
    return JSON.stringify(found?.assets ?? []) === JSON.stringify(assets.sort()) && (found ?? true)
  })
let term = 1
/** A tick as the worker of a term forwards it. */
const forward = (asset: string, epoch: number, price: string, of = term) =>
  bus.publish(tickChannelOf(dialect), 'tick', `${of} ${asset} ${epoch} ${price}`)
const ticksIn = (client: Client) => client.messages.filter(({ type }) => type === 'ticks').flatMap(({ data }) => data)
const arrived = (client: Client, asset: string, epoch: number) =>
  until(`the tick ${epoch} of ${asset}`, () =>
    ticksIn(client).some(tick => tick.asset === asset && tick.epoch === epoch)
  )
const epochsOf = (client: Client, asset: string) =>
  ticksIn(client)
    .filter(tick => tick.asset === asset)
    .map(({ epoch }) => epoch)

const subscribing = suite('a subscription to ticks')

subscribing('gets the ticks of its assets as they come, and those alone', async () => {
  const client = await connect(await harness.makePartner())
  assert.equal(Object.keys(await subscribe(client, ['R_100', 'R_50'])).sort(), ['channel', 'id', 'type'])
  await wanted('R_100', 'R_50')
  forward('R_100', 100, '1219.50')
  forward('R_75', 100, '7.1')
  forward('R_50', 100, '200.1234')
  await arrived(client, 'R_50', 100)
  assert.equal(ticksIn(client), [
    { asset: 'R_100', epoch: 100, price: 1219.5 },
    { asset: 'R_50', epoch: 100, price: 200.1234 }
  ])
  client.close()
  await wanted()
})

subscribing('shares frames, so that ticks of the same moment come in one', async () => {
  const client = await connect(await harness.makePartner())
  const assets = Array.from({ length: 50 }, (_, index) => `A_${index}`)
  await subscribe(client, assets)
  await wanted(...assets)
  for (const asset of assets) forward(asset, 100, '1.5')
  const { data } = await client.take('ticks')
  assert.is(data.length, 50)
  client.close()
  await wanted()
})

subscribing('gets each tick once, however many subscriptions of the socket name its asset', async () => {
  const client = await connect(await harness.makePartner())
  await subscribe(client, ['R_100', 'R_50'])
  await subscribe(client, ['R_100', 'R_25'], 'more')
  await wanted('R_100', 'R_25', 'R_50')
  forward('R_100', 200, '1.5')
  forward('R_25', 200, '2.5')
  await arrived(client, 'R_25', 200)
  client.send({ type: 'unsubscribe', id: 'prices' })
  await wanted('R_100', 'R_25')
  forward('R_50', 201, '3.5')
  forward('R_100', 201, '1.5')
  await arrived(client, 'R_100', 201)
  assert.equal(
    ['R_100', 'R_25', 'R_50'].map(asset => epochsOf(client, asset)),
    [[200, 201], [200], []]
  )
  client.close()
  await wanted()
})

subscribing('begins with the newest tick that is known, which does not come again', async () => {
  const first = await connect(await harness.makePartner())
  await subscribe(first, ['R_100'])
  await wanted('R_100')
  const partner = await harness.makePartner()
  const rounds = 20
  const clients: Client[] = []
  for (let round = 0; round < rounds; round++) {
    const client = await connect(partner)
    clients.push(client)
    // The tick and the subscription arrive in any order, some of them between the tick's arrival and its delivery.
    forward('R_100', 300 + round, '1.5')
    await subscribe(client, ['R_100'])
    await arrived(client, 'R_100', 300 + round)
  }
  forward('R_100', 400, '1.5')
  for (const [round, client] of clients.entries()) {
    await arrived(client, 'R_100', 400)
    const expected = Array.from({ length: rounds - round }, (_, index) => 300 + round + index)
    const got = epochsOf(client, 'R_100')
    assert.equal(got.slice(got.indexOf(300 + round)), [...expected, 400])
    assert.is(new Set(got).size, got.length, `a tick came twice: ${got}`)
  }
  for (const client of [first, ...clients]) client.close()
  await wanted()
})

subscribing('loses and doubles nothing while it changes its assets', async () => {
  const client = await connect(await harness.makePartner())
  await subscribe(client, ['R_100'])
  await wanted('R_100')
  for (let round = 0; round < 30; round++) {
    forward('R_100', 500 + round, '1.5')
    if (round % 6 === 0)
      client.send({ type: 'subscribe', id: `more${round}`, channel: 'ticks', assets: [`R_${round}`] })
    await new Promise(resolve => setImmediate(resolve))
  }
  await arrived(client, 'R_100', 529)
  assert.equal(
    epochsOf(client, 'R_100'),
    Array.from({ length: 30 }, (_, index) => 500 + index)
  )
  client.close()
  await wanted()
})

subscribing('ignores a worker whose term is over, and what the next one repeats', async () => {
  const client = await connect(await harness.makePartner())
  await subscribe(client, ['R_100'])
  await wanted('R_100')
  forward('R_100', 600, '1.5')
  await arrived(client, 'R_100', 600)
  term += 1
  forward('R_100', 600, '1.5')
  forward('R_100', 602, '1.6')
  forward('R_100', 604, '9.9', term - 1)
  forward('R_100', 606, '1.7')
  await arrived(client, 'R_100', 606)
  assert.equal(epochsOf(client, 'R_100'), [600, 602, 606])
  client.close()
  await wanted()
})

subscribing('names an asset that the broker does not have, once, and goes on with the others', async () => {
  const client = await connect(await harness.makePartner())
  await subscribe(client, ['R_100', 'NOSUCH'])
  await wanted('NOSUCH', 'R_100')
  for (let round = 0; round < 3; round++) bus.publish(tickChannelOf(dialect), 'unknown', `${term} NOSUCH`)
  const { id, error, message } = await client.take('error')
  assert.equal([id, error], ['prices', 'VALIDATION_FAILED'])
  assert.match(message, 'NOSUCH')
  forward('R_100', 700, '1.5')
  await arrived(client, 'R_100', 700)
  bus.publish(tickChannelOf(dialect), 'unknown', `${term} NOSUCH`)
  forward('R_100', 701, '1.5')
  await arrived(client, 'R_100', 701)
  assert.is(client.messages.filter(({ type }) => type === 'error').length, 1)
  client.close()
  await wanted()
})

subscribing('gets only the newest of each asset once it reads again', async () => {
  const [slow, fast] = await Promise.all([1, 2].map(async () => connect(await harness.makePartner())))
  assert.ok(slow && fast)
  const assets = Array.from({ length: 100 }, (_, index) => `A_${index}`)
  await subscribe(slow, assets)
  await subscribe(fast, assets)
  await wanted(...assets)
  const newestOf = (client: Client) => client.messages.findLast(({ type }) => type === 'ticks')?.data.at(-1).epoch
  slow.ws.pause()
  // More than the system keeps for a socket.
  const [rounds, epochs] = [60, 40]
  const last = 1000 + rounds * epochs - 1
  for (let epoch = 1000; epoch <= last; epoch += epochs) {
    for (let step = 0; step < epochs; step++) for (const asset of assets) forward(asset, epoch + step, '1234567.123456')
    await until('the fast one', () => newestOf(fast) === epoch + epochs - 1, 30_000)
  }
  slow.ws.resume()
  await until('the newest', () => newestOf(slow) === last, 30_000)
  const some = epochsOf(slow, 'A_0')
  assert.ok(some.length < rounds * epochs, `${some.length}`)
  assert.equal(some, [...new Set(some)].sort())
  assert.is(some.at(-1), last)
  for (const client of [slow, fast]) client.close()
  await wanted()
})

subscribing('is bounded: assets of a socket, assets of a message, subscriptions, and the scope', async () => {
  const client = await connect(await harness.makePartner())
  const refused = async (message: object) => {
    client.send({ type: 'subscribe', id: 'x', channel: 'ticks', ...message })
    return (await client.take('error')).error
  }
  assert.is(await refused({}), 'VALIDATION_FAILED')
  assert.is(await refused({ assets: [] }), 'VALIDATION_FAILED')
  assert.is(await refused({ assets: ['no such asset'] }), 'VALIDATION_FAILED')
  assert.is(await refused({ assets: ['R_100'], after: 'p0Qm4bJxL7sVd2RkYt9wEA' }), 'VALIDATION_FAILED')
  assert.is(await refused({ assets: Array.from({ length: 101 }, (_, index) => `A_${index}`) }), 'VALIDATION_FAILED')
  const hundred = Array.from({ length: 100 }, (_, index) => `A_${index}`)
  await subscribe(client, hundred)
  assert.is(await refused({ assets: ['R_100'] }), 'LIMIT_REACHED')
  await subscribe(client, hundred.slice(0, 50), 'again')
  assert.is(await refused({ id: 'again', assets: ['A_1'] }), 'CONFLICT')
  client.close()
  const narrow = await connect(await harness.makePartner({ scopes: ['events:read'] }))
  narrow.send({ type: 'subscribe', id: 'x', channel: 'ticks', assets: ['R_100'] })
  assert.is((await narrow.take('error')).error, 'INSUFFICIENT_SCOPE')
  const prices = await connect(await harness.makePartner({ scopes: ['trading:read'] }))
  await subscribe(prices, ['R_100'])
  prices.send({ type: 'subscribe', id: 'x', channel: 'events' })
  assert.is((await prices.take('error')).error, 'INSUFFICIENT_SCOPE')
  for (const each of [narrow, prices]) each.close()
  await wanted()
})

/** Ticks without a socket: what they send, and what is done in the turn of the event loop in which a tick arrives, before it is sent. */
async function openBoard() {
  const ticks = new Ticks(harness.services)
  let arrivals = 0
  let onArrival: (arrivals: number) => void = () => {}
  onClose(() => ticks.close())
  const join = (...assets: string[]) => {
    const epochs: number[] = []
    const member = ticks.join(
      { brokerDialect: dialect, brokerAppId: '1' },
      {
        crowded: false,
        unknownAsset: () => {},
        sendTicks: frame => epochs.push(...JSON.parse(String(frame)).data.map(({ epoch }: { epoch: number }) => epoch))
      }
    )
    member.want(new Set(assets))
    return { epochs, member }
  }
  const first = join('R_100')
  await wanted('R_100')
  // Registered after the board, so called right after it.
  const unhear = await bus.listen(tickChannelOf(dialect), ({ topic }) => {
    if (topic === 'tick') onArrival(++arrivals)
  })
  onClose(async () => unhear())
  return {
    first,
    join,
    /** Forwards ticks of R_100 in one message, and another one once they have been sent; `then` is called as each arrives. */
    async forward(epochs: number[], then: (arrivals: number) => void) {
      onArrival = then
      for (const epoch of epochs) forward('R_100', epoch, '1.5')
      await until('them', () => first.epochs.includes(epochs.at(-1) as number))
      forward('R_100', 999, '1.5')
      await until('the last', () => first.epochs.includes(999))
      first.member.end()
    }
  }
}

const arriving = suite('between the arrival of a tick and its delivery')

arriving('who joins gets it once', async () => {
  const { first, join, forward } = await openBoard()
  let late: ReturnType<typeof join> | undefined
  await forward([801], () => {
    late ??= join('R_100')
  })
  late?.member.end()
  assert.equal(
    [first.epochs, late?.epochs],
    [
      [801, 999],
      [801, 999]
    ]
  )
  await wanted()
})

arriving('who joins between two of them gets each once', async () => {
  const { first, join, forward } = await openBoard()
  let late: ReturnType<typeof join> | undefined
  await forward([811, 812], arrivals => {
    if (arrivals === 1) late = join('R_100')
  })
  late?.member.end()
  assert.equal(
    [first.epochs, late?.epochs],
    [
      [811, 812, 999],
      [811, 812, 999]
    ]
  )
  await wanted()
})

arriving('who changes assets gets it once, whether the asset stays wanted or not', async () => {
  const { first, join, forward } = await openBoard()
  const [stays, leaves] = [join('R_100', 'R_50'), join('R_100', 'R_25')]
  await forward([821], arrivals => {
    if (arrivals !== 1) return
    stays.member.want(new Set(['R_100', 'R_75']))
    leaves.member.want(new Set(['R_75']))
  })
  for (const { member } of [stays, leaves]) member.end()
  assert.equal([first.epochs, stays.epochs, leaves.epochs], [[821, 999], [821, 999], [821]])
  await wanted()
})

arriving('of more ticks than wait for their turn the newest of each asset remain', async () => {
  const { first, join } = await openBoard()
  const { epochs, member } = join('R_50')
  await wanted('R_100', 'R_50')
  const last = 10_000
  let arrivals = 0
  // All of them arrive while this process is held up at the first.
  const unhear = await bus.listen(tickChannelOf(dialect), () => {
    arrivals += 1
    if (arrivals === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
  })
  onClose(async () => unhear())
  for (const epoch of [841, 842]) forward('R_50', epoch, '1.5')
  for (let epoch = 5000; epoch <= last; epoch++) forward('R_100', epoch, '1.5')
  await until('the last', () => first.epochs.includes(last))
  for (const each of [first.member, member]) each.end()
  assert.is(epochs.at(-1), 842)
  await wanted()
})

const tickets = suite('a ticket for ticks')

tickets('needs the scope of each channel, and names the assets it is for', async () => {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  const body = { traderExternalId, channels: ['ticks'], assets: ['R_100'] }
  const { body: made } = await partner.call(createStreamTicket, { body })
  const client = await openClient(address, { ticket: made.ticket })
  await subscribe(client, ['R_100'])
  const refused = async (message: object): Promise<Message> => {
    client.send({ type: 'subscribe', id: 'x', ...message })
    return client.take('error')
  }
  assert.is((await refused({ channel: 'ticks', assets: ['R_100', 'R_50'] })).error, 'INSUFFICIENT_SCOPE')
  assert.is((await refused({ channel: 'events' })).error, 'INSUFFICIENT_SCOPE')
  assert.is((await refusedUpgrade(address, { ticket: made.ticket })).status, 401)
  const events = { traderExternalId, channels: ['events'], assets: ['R_100'] }
  const pointless = await partner.call(createStreamTicket, { body: events })
  assert.equal(
    [pointless.status, pointless.body.details?.[0]?.path, pointless.body.violations],
    [400, '/body/assets', 1]
  )
  const narrow = await harness.makePartner({ scopes: ['events:read', 'trading:write'] })
  const trader = await narrow.makeTrader()
  const without = await narrow.call(createStreamTicket, { body: { traderExternalId: trader.traderExternalId } })
  assert.equal([without.status, without.body.requiredScope], [403, 'trading:read'])
  client.close()
  await wanted()
})

tickets.after(closeAll)
subscribing.run()
arriving.run()
tickets.run()

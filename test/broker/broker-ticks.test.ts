// test in a process of its own
// test once for each dialect
// Live prices through the port: what is wanted is streamed, what is not is given up, and a lost connection loses no asset.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, dialect, frontOf } from '../support/dialects.ts'
import { until } from '../support/harness.ts'
import { clientOf, closeClients, simulator } from './broker-port.ts'
import { openRelay } from './broker-relay.ts'

const streaming = suite('live prices')

type SeenTicks = { asset: string; epoch: number; price: string }[]

/** The ticks of a client of its own, and what they bring. */
function ticksOf(client = clientOf({ ticksKeptMs: 100 })) {
  const { ticks } = client.market(appIds[dialect])
  const seen: SeenTicks = []
  ticks.listen(tick => void seen.push(tick))
  return { ticks, seen }
}
const some = (seen: SeenTicks, asset: string, least = 3) =>
  until(`ticks of ${asset}`, async () => seen.filter(each => each.asset === asset).length >= least, 30_000)
/** Assets streamed to all connections of the simulator. */
const streamed = () =>
  [...frontOf(simulator).connections].reduce((count, { streams }) => count + streams.count('ticks'), 0)

streaming('bring every tick of what is wanted, as printed, and of nothing else', async () => {
  const { ticks, seen } = ticksOf()
  ticks.want(new Set(['R_100', '1HZ100V']))
  await some(seen, 'R_100')
  await some(seen, '1HZ100V')
  const decimals = symbols.get('R_100')?.decimals as number
  for (const { asset, epoch, price } of seen) {
    assert.ok(['R_100', '1HZ100V'].includes(asset))
    assert.ok(Math.abs(epoch - Date.now() / 1000) < 60)
    if (asset === 'R_100') assert.is(price.split('.')[1]?.length, decimals, price)
  }
  const symbol = symbols.get('R_100') as NonNullable<ReturnType<typeof symbols.get>>
  simulator.engine.market.script(
    symbol,
    Array.from({ length: 500 }, () => 1219.5)
  )
  const zeros = '0'.repeat(decimals - 1)
  await until('the price with its last zeros', async () => seen.some(({ price }) => price === `1219.5${zeros}`))
  ticks.want(new Set())
})

// No schema requires anything of a tick but its decimals.
streaming('bring the ticks of a broker that does not name their asset', async () => {
  const relay = await openRelay(simulator, ({ tick, ...frame }) =>
    tick === undefined ? frame : { ...frame, tick: { ...(tick as object), symbol: undefined } }
  )
  const { ticks, seen } = ticksOf(clientOf({ ticksKeptMs: 100 }, relay))
  ticks.want(new Set(['R_100', '1HZ100V']))
  await some(seen, 'R_100')
  await some(seen, '1HZ100V')
  ticks.want(new Set())
  relay.close()
})

streaming('name what the broker does not have', async () => {
  const { ticks, seen } = ticksOf()
  ticks.want(new Set(['R_50', 'NOSUCH_1']))
  await some(seen, 'R_50')
  await until('the unknown asset', async () => ticks.unknown.has('NOSUCH_1'))
  assert.equal([...ticks.unknown], ['NOSUCH_1'])
  ticks.want(new Set())
  assert.is(ticks.unknown.size, 0)
})

streaming('end at the broker when no subscription wants them', async () => {
  await until('no stream of the tests before', async () => streamed() === 0)
  const { ticks, seen } = ticksOf()
  ticks.want(new Set(['R_25', 'R_75']))
  await some(seen, 'R_25')
  await some(seen, 'R_75')
  ticks.want(new Set(['R_75']))
  await until('one stream less', async () => streamed() === 1)
  const received = seen.filter(({ asset }) => asset === 'R_25').length
  await some(seen, 'R_75', seen.filter(({ asset }) => asset === 'R_75').length + 5)
  assert.is(seen.filter(({ asset }) => asset === 'R_25').length, received)
  ticks.want(new Set())
})

streaming('come back after the connection broke, with no tick twice', async () => {
  // At their real pace, so that the seconds distinguish ticks.
  const real = await startSimulator({ limits: 'off' })
  const { ticks, seen } = ticksOf(clientOf({}, real))
  ticks.want(new Set(['1HZ100V']))
  for (const count of [1, 2, 3, 5]) {
    await some(seen, '1HZ100V', count)
    if (count < 4) frontOf(real).cutAll()
  }
  const epochs = seen.map(({ epoch }) => epoch)
  assert.equal(epochs, [...new Set(epochs)].sort())
  await real.close()
})

streaming('wait for a market that is closed, without a report that the asset is unknown', async () => {
  const symbol = symbols.get('R_100') as NonNullable<ReturnType<typeof symbols.get>>
  const { sessions } = simulator.engine.market
  sessions.force(symbol, false, Infinity)
  const { ticks, seen } = ticksOf()
  ticks.want(new Set(['R_100', 'R_50']))
  await some(seen, 'R_50')
  assert.is(ticks.unknown.size, 0)
  sessions.force(symbol, null, Infinity)
  await some(seen, 'R_100')
})

streaming.after(closeClients)
streaming.run()

// Many callers, one statement: batching different requests, sharing equal ones.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { batch, Overloaded, share } from '../../db/postgres/batch.ts'

const batching = suite('batch')

batching('takes turns among parties where more wait than one group takes', async () => {
  const { runs, run } = gate()
  const of = batch(async (items: string[]) => (await run(items.join(' '))).split(' '), {
    max: 4,
    concurrency: 1,
    ownerOf: item => item.slice(0, 1)
  })
  const all = Promise.all(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'c1', 'b2'].map(of))
  const groups: string[] = []
  while (groups.length < 3) {
    await turn()
    const { key, end } = runs[groups.length] as (typeof runs)[number]
    groups.push(key)
    end(key)
  }
  assert.equal(groups, ['a1 b1 c1 a2', 'a3 b2 a4 a5', 'a6'])
  assert.equal(await all, ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'c1', 'b2'])
})

batching('refuses callers once as many wait as may, and takes others when those are gone', async () => {
  const { runs, run } = gate()
  const of = batch(async (items: string[]) => (await run(items.join(' '))).split(' '), { concurrency: 1, waiting: 3 })
  const outcomes = ['a', 'b', 'c', 'd', 'e'].map(item => of(item).catch((error: unknown) => error))
  await turn()
  assert.is(runs[0]?.key, 'a b c')
  const later = of('f')
  runs[0]?.end('A B C')
  const [a, b, c, ...refused] = await Promise.all(outcomes)
  assert.equal([a, b, c], ['A', 'B', 'C'])
  for (const error of refused) assert.instance(error, Overloaded)
  await turn()
  runs[1]?.end('F')
  assert.is(await later, 'F')
})

const sharing = suite('share')

/** A run that ends on request. */
function gate() {
  const runs: { key: string; end(value: string): void; fail(error: Error): void }[] = []
  const run = (key: string) => new Promise<string>((resolve, reject) => runs.push({ key, end: resolve, fail: reject }))
  return { runs, run }
}
const turn = () => new Promise(resolve => setImmediate(resolve))

sharing('serves all calls that come before a run begins with that run', async () => {
  const { runs, run } = gate()
  const read = share(run)
  const all = Promise.all([read('a'), read('a'), read('a')])
  await turn()
  assert.is(runs.length, 1)
  runs[0]?.end('first')
  assert.equal(await all, ['first', 'first', 'first'])
})

sharing('never returns a run that began before the call, and runs one at a time', async () => {
  const { runs, run } = gate()
  const read = share(run)
  const early = read('a')
  await turn()
  const late = Promise.all([read('a'), read('a')])
  await turn()
  assert.is(runs.length, 1)
  runs[0]?.end('first')
  assert.is(await early, 'first')
  await turn()
  assert.is(runs.length, 2)
  const last = read('a')
  runs[1]?.end('second')
  assert.equal(await late, ['second', 'second'])
  await turn()
  runs[2]?.end('third')
  assert.is(await last, 'third')
})

sharing('keeps keys apart, and gives a failure to its own callers alone', async () => {
  const { runs, run } = gate()
  const read = share(run)
  const [a, b] = [read('a'), read('b')]
  await turn()
  assert.equal(
    runs.map(({ key }) => key),
    ['a', 'b']
  )
  const next = read('a')
  runs[0]?.fail(new Error('away'))
  assert.is(await a.catch((error: Error) => error.message), 'away')
  await turn()
  runs[1]?.end('b')
  runs[2]?.end('again')
  assert.equal([await b, await next], ['b', 'again'])
})

batching.run()
sharing.run()

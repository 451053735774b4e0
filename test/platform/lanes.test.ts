// How many test files the runner has run beside each other.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { inLanes } from '../lanes.ts'

const beside = suite('npm test: files beside each other')

for (const [idle, most] of [
  [1, 5],
  [0, 2]
] as const)
  beside(`are ${most} at most where the cores are idle for ${idle} of the time, and each is run once`, async () => {
    const [ran, underWay]: [number[], Set<number>] = [[], new Set()]
    let widest = 0
    const run = async (item: number) => {
      underWay.add(item)
      widest = Math.max(widest, underWay.size)
      ran.push(item)
      // Until lanes have been added, if any are.
      await new Promise(resolve => setTimeout(resolve, 40))
      underWay.delete(item)
    }
    const items = Array.from({ length: 30 }, (_, item) => item)
    const { signal } = new AbortController()
    await inLanes(items, { width: 2, most: 5, run, signal, idle: () => idle, lookMs: 5 })
    assert.equal(ran, items)
    assert.is(widest, most)
  })

beside.run()

// A program with the client that is killed and started again buys each thing once: the short form of `make client-kills`.
// test in the full run only
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeAll } from '../support/harness.ts'
import { seed } from '../support/seed.ts'
import { runKills } from './kills.ts'

const killing = suite('a program with the client')

killing('has fewer than 60 lines', () => {
  const program = readFileSync(join(import.meta.dirname, 'trader.ts'), 'utf8')
  assert.ok(program.trimEnd().split('\n').length < 60)
})

killing(`buys each intent once, killed five times, and survives a restart of the api (seed ${seed})`, async () => {
  const report = await runKills({ kills: 5, orders: 6, seed })
  const { kills, contracts, lost, doubled, sum, brokerSum, balance } = report
  assert.equal({ kills, contracts, lost, doubled }, { kills: 5, contracts: 6, lost: 0, doubled: 0 })
  assert.is(sum, brokerSum)
  assert.is(Math.round((balance - 10_000) * 100) / 100, sum)
})

killing.after(closeAll)
killing.run()

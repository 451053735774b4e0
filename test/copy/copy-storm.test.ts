// The storm of copying in short: followers of all limits, leaders that close early and switch accounts, lost tokens and
// killed workers. The long form is `make copy-storm`.
// test in the full run only
// test time-out: 300 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { deepestLoss } from '../copy-storm/judge.ts'
import { storm } from '../copy-storm/storm.ts'
import { closeAll } from '../support/harness.ts'
import { seed } from '../support/seed.ts'

const storms = suite(`copy storm, seed ${seed}`)

storms('no follow loses more than its limit, and every copy of a closed order is closed', async () => {
  const options = { seed, followers: 30, leaders: 3, orders: 40, workers: 2, kills: 2 }
  const { broken, ...report } = await storm({ ...options, print: line => console.log(line) })
  console.log(JSON.stringify(report))
  assert.equal(broken, [])
  assert.ok(report.copies > 100 && report.skipped > 10 && report.kills === 2, JSON.stringify(report))
})

storms('measures a loss at its deepest, in the order in which contracts ended', () => {
  const entry = (profit: string | null, soldAtMs: number) => ({ profit, soldAtMs })
  assert.is(deepestLoss([entry('-5', 3), entry('10', 1), entry('-8', 2), entry('20', 4)]).toFixed(), '3')
  assert.is(deepestLoss([entry('-5', 1), entry('10', 2), entry(null, 0)]).toFixed(), '5')
  assert.is(deepestLoss([]).toFixed(), '0')
})

storms.after(closeAll)
storms.run()

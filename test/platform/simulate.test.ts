// The simulation in short: a fixed seed and a new one on both dialects, one of them twice; and some of the mutants,
// whom it must find. The long forms are `make simulate` and `make mutants`.
// test in the full run only
// test time-out: 600 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { guards } from '../simulate/guards.ts'
import { hunt, lineOf } from '../simulate/mutants.ts'
import { describe, type LivesRequest, runSeed } from '../simulate/run.ts'
import { startServer } from '../simulate/server.ts'
import { dialects } from '../support/dialects.ts'
import { seed } from '../support/seed.ts'

const LIVES = 60

const simulation = suite(`simulation, seed ${seed}`)
const servers = await Promise.all([startServer(), startServer()])

/** Lives these at once, each on a server of its own, and has nothing to complain of. */
function live(...all: Pick<LivesRequest, 'seed' | 'mode' | 'dialect'>[]) {
  return Promise.all(
    servers.map(async ({ url: admin }, index) => {
      const asked = { ...(all[index] as (typeof all)[number]), lives: LIVES, admin }
      const verdict = await runSeed(asked)
      console.log(describe({ ...asked, ...verdict }))
      const { seed, mode, dialect } = asked
      assert.ok(verdict.good, `make simulate: --seed ${seed} --mode ${mode} --dialect ${dialect} --batch ${LIVES}`)
      return verdict
    })
  )
}

for (const dialect of dialects) {
  simulation(`ends every order once, in time and with its money right (${dialect})`, async () => {
    await live({ seed: 5, mode: 'broker', dialect }, { seed, mode: 'usual', dialect })
  })
}

simulation('repeats a seed to the last event', async () => {
  const asked = { seed: 6, mode: 'database', dialect: 'v3' } as const
  const [one, other] = await live(asked, asked)
  assert.is(one?.hash, other?.hash)
})

simulation('finds guards gone', async () => {
  const quick = guards.filter(guard => 'quick' in guard)
  assert.ok(quick.length >= 4)
  const hunts = servers.map(async ({ url: admin }) => {
    for (let guard = quick.shift(); guard; guard = quick.shift()) {
      const caught = await hunt(guard, { admin, first: 1 })
      console.log(lineOf(caught))
      assert.ok(caught.found, guard.name)
    }
  })
  await Promise.all(hunts)
})

simulation('reports a guard that is not in the place given', async () => {
  const edits = [{ file: 'worker/orders/placing.ts', from: 'if (clock.now() >= nothing)', to: 'if (false)' }]
  const asked = { admin: '', seed: 1, lives: 1, mode: 'usual', dialect: 'v3' } as const
  const error = await runSeed(asked, { edits }).then(
    () => undefined,
    (cause: Error) => cause
  )
  assert.match(error?.message ?? '', 'has the text of this guard 0 times')
})

simulation.after(async () => {
  await Promise.all(servers.map(server => server.stop()))
})
simulation.run()

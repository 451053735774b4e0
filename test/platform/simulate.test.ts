// The simulation in short: a fixed seed and a new one, each in one of the dialects, and one twice; and some of the mutants,
// whom it must find. The long forms are `make simulate` and `make mutants`.
// test in the full run only
// test time-out: 600 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { guards } from '../simulate/guards.ts'
import { hunt, lineOf } from '../simulate/mutants.ts'
import { describe, type LivesRequest, runSeed } from '../simulate/run.ts'
import { startServer } from '../simulate/server.ts'
import { seed } from '../support/seed.ts'

const LIVES = 60

const simulation = suite(`simulation, seed ${seed}`)
const server = await startServer()
const { url: admin } = server

/** Lives it, and has nothing to complain of. */
async function live(kind: Pick<LivesRequest, 'seed' | 'mode' | 'dialect'>) {
  const options = { ...kind, lives: LIVES, admin }
  const verdict = await runSeed(options)
  console.log(describe({ ...options, ...verdict }))
  const { seed, mode, dialect } = options
  assert.ok(verdict.good, `make simulate: --seed ${seed} --mode ${mode} --dialect ${dialect} --batch ${LIVES}`)
  return verdict
}

for (const kind of [
  { seed: 5, mode: 'broker', dialect: 'next' },
  { seed, mode: 'usual', dialect: 'v3' }
] as const) {
  simulation(`ends every order once, in time and with its money right (${kind.dialect})`, async () => {
    await live(kind)
  })
}

simulation('repeats a seed to the last event', async () => {
  const options = { seed: 6, mode: 'database', dialect: 'v3' } as const
  assert.is((await live(options)).hash, (await live(options)).hash)
})

simulation('finds guards gone', async () => {
  const quick = guards.filter(guard => 'quick' in guard)
  assert.is(quick.length, 2)
  for (const guard of quick) {
    // It hunts on with the next seed where one finds nothing.
    const caught = await hunt({ ...guard, lives: LIVES }, { admin, first: 1 })
    console.log(lineOf(caught))
    assert.ok(caught.found, guard.name)
  }
})

simulation('reports a guard that is not in the place given', async () => {
  const edits = [{ file: 'worker/orders/placing.ts', from: 'if (clock.now() >= nothing)', to: 'if (false)' }]
  const options = { admin: '', seed: 1, lives: 1, mode: 'usual', dialect: 'v3' } as const
  const error = await runSeed(options, { edits }).then(
    () => undefined,
    (cause: Error) => cause
  )
  assert.match(error?.message ?? '', 'has the text of this guard 0 times')
})

simulation.after(async () => {
  await server.stop()
})
simulation.run()

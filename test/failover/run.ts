// `make failover`: primaries, standbys and etcd of a Patroni cluster killed, frozen, cut off and switched over under load,
// then the audit. Options as FAULTS=100, SEED, ONLY=switchover,etcd (faults whose kind contains one of these), RATE (orders a
// second), WORKERS, ACCOUNTS, SOCKETS, REDIS=off, BROKER_DIALECT=next, KEEP=on, MINUTES (no fault begins later), STRETCH (times of
// orders so many times as long: beside other work the simulated broker may miss its own time-out). FIGURES=FILE records the
// run in a file and prints the sum of all that are in it: a hundred faults are several runs, each with its own seed.
import { hasRedis } from '../chaos/stack.ts'
import { dialects } from '../support/dialects.ts'
import { failover } from './failover.ts'
import { describeBatches, recordBatch } from './figures.ts'
import { INSIDE, isolated, KEPT, whyNot } from './machines.ts'

const { env } = process

const number = (name: string, usual: number) => {
  const value = Number(env[name] ?? usual)
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name} must be a number`)
  return value
}

if (env[INSIDE]) {
  const dialect = dialects.find(each => each === (env.BROKER_DIALECT ?? 'v3'))
  if (!dialect) throw new Error(`BROKER_DIALECT must be ${dialects.join(' or ')}`)
  const seed = number('SEED', 1)
  const outcome = await failover({
    seed,
    faults: number('FAULTS', 10),
    only: env.ONLY,
    rate: number('RATE', 15),
    workers: number('WORKERS', 2),
    accounts: number('ACCOUNTS', 60),
    sockets: number('SOCKETS', 8),
    stretch: number('STRETCH', 1),
    redis: env.REDIS !== 'off' && hasRedis(),
    dialect,
    withinMs: number('MINUTES', 24 * 60) * 60_000,
    report: line => console.log(line)
  })
  const { wrong } = outcome
  console.log(`failover: ${wrong.length} violations`)
  if (env.FIGURES) {
    recordBatch(env.FIGURES, { seed, dialect, ...outcome })
    for (const line of describeBatches(env.FIGURES)) console.log(line)
  }
  process.exit(wrong.length > 0 ? 1 : env.KEEP === 'on' ? KEPT : 0)
} else {
  const reason = whyNot()
  if (reason) {
    console.error(`make failover: ${reason}.`)
    process.exitCode = 2
  } else {
    const seed = env.SEED ?? String(Math.floor(Math.random() * 2 ** 31))
    console.log(`failover: seed ${seed}`)
    const code = await isolated({ SEED: seed })
    process.exitCode = code === KEPT ? 0 : code
  }
}

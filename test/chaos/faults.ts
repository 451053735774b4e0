// What goes wrong, and when: drawn from a seed. Processes are killed, stopped in order, and frozen; their
// connections are cut, and their traffic is held back.
//
// What the order protocol requires of the world is kept: a buy the broker will execute is executed within its own
// time-out (RECONCILE_AFTER_MS). So traffic to the broker is held, and the broker frozen, for less than that;
// all else takes as long as it likes.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seeded } from '../money-storm/random.ts'
import type { ChaosMember } from './members.ts'
import type { FaultyNetwork } from './network.ts'
import type { ChaosStack } from './stack.ts'

export interface InjectedFaults {
  /** Faults by kind, as in 'kill worker'. */
  faults: Record<string, number>
  /** What was done when, for the traces. */
  log: { at: Date; what: string }[]
  /** Resolves when all faults are done and what they broke is whole again. */
  done: Promise<void>
}

const MAX_FREEZE_MS = 8000
const MAX_BROKER_PAUSE_MS = 900
const PATIENCE_MS = 20
const ALL_DOWN_MS = 1000

type ChaosFault = (world: ChaosWorld) => Promise<boolean>

interface ChaosWorld {
  stack: ChaosStack
  random: Random
  note(what: string): void
  later(fault: Promise<unknown>): void
}

/** Kinds of faults and how often each is drawn. */
const faults: [weight: number, kind: string, fault: ChaosFault][] = [
  [13, 'kill worker', world => end(world, world.stack.workers, 'SIGKILL')],
  [5, 'restart worker', world => end(world, world.stack.workers, 'SIGTERM')],
  [28, 'freeze worker', world => freeze(world, world.stack.workers, MAX_FREEZE_MS)],
  [7, 'kill api', world => end(world, world.stack.apis, 'SIGKILL')],
  [3, 'restart api', world => end(world, world.stack.apis, 'SIGTERM')],
  [14, 'freeze api', world => freeze(world, world.stack.apis, MAX_FREEZE_MS)],
  [5, 'kill broker', world => end(world, [world.stack.broker], 'SIGKILL')],
  [6, 'freeze broker', world => freeze(world, [world.stack.broker], MAX_BROKER_PAUSE_MS)],
  [3, 'kill postgres', killPostgres],
  [4, 'freeze postgres', world => freezePostgres(world, false)],
  [3, 'freeze sessions', world => freezePostgres(world, true)],
  [3, 'kill redis', world => end(world, [world.stack.redis], 'SIGKILL')],
  [3, 'freeze redis', world => freeze(world, [world.stack.redis], 3000)],
  [9, 'cut broker', world => cut(world, world.stack.network.broker)],
  [7, 'cut postgres', world => cut(world, world.stack.network.postgres)],
  [2, 'cut redis', world => cut(world, world.stack.network.redis)],
  [7, 'hold broker', world => hold(world, world.stack.network.broker, MAX_BROKER_PAUSE_MS)],
  [3, 'hold postgres', world => hold(world, world.stack.network.postgres, 4000)]
]

const isCut = (kind: string) => /^(cut|hold)/.test(kind)

/** Kills, restarts and freezes, as they are counted; cuts and holds come on top. */
export function countKills(injected: Record<string, number>): number {
  return Object.entries(injected).reduce((sum, [kind, count]) => (isCut(kind) ? sum : sum + count), 0)
}

/**
 * Does harm until `kills` processes were killed, restarted or frozen, spread over `ms`; at most a quarter longer, but on a machine that is
 * slow now up to four times as long for the first `leastKills`. With `restartAll` everything ends at once half-way, as when a machine loses
 * its power.
 */
export function startFaults(
  stack: ChaosStack,
  options: { seed: number; kills: number; leastKills?: number | undefined; ms: number; restartAll: boolean }
): InjectedFaults {
  const random = seeded(options.seed)
  const mending = new Set<Promise<unknown>>()
  const injected: InjectedFaults = { faults: {}, log: [], done: Promise.resolve() }
  const world: ChaosWorld = {
    stack,
    random,
    note: what => injected.log.push({ at: new Date(), what }),
    later(fault) {
      const mended: Promise<unknown> = fault
        .catch((error: Error) => world.note(`could not be mended: ${error.message}`))
        .finally(() => mending.delete(mended))
      mending.add(mended)
    }
  }
  const possible = faults.filter(([, kind]) => stack.redis || !kind.endsWith('redis'))
  const total = possible.reduce((sum, [weight]) => sum + weight, 0)
  const share = possible.reduce((sum, [weight, kind]) => (isCut(kind) ? sum : sum + weight), 0) / total
  const everyMs = (options.ms * share) / options.kills

  const run = async () => {
    let dueAt = performance.now()
    const startedAt = dueAt
    const isOver = () => {
      const count = countKills(injected.faults)
      const longestMs = options.ms * (count < (options.leastKills ?? 0) ? 4 : 1.25)
      return count >= options.kills || performance.now() >= startedAt + longestMs
    }
    let allAt = options.restartAll ? dueAt + options.ms / 2 : Infinity
    while (!isOver()) {
      // From nothing to twice the pause: at times several at once.
      dueAt += (everyMs * random.below(2001)) / 1000
      let draw = random.below(total)
      const [, kind, fault] = possible.find(([weight]) => {
        draw -= weight
        return draw < 0
      }) as (typeof faults)[number]
      const early = dueAt - performance.now()
      if (early > 1) await sleep(early)
      // Behind time (the machine is slow): from here on, not all at once.
      else dueAt = Math.max(dueAt, performance.now() - 500)
      if (performance.now() >= allAt) {
        allAt = Infinity
        restartEverything(world)
        injected.faults['restart everything'] = 1
      } else if (await fault(world)) injected.faults[kind] = (injected.faults[kind] ?? 0) + 1
      else await sleep(PATIENCE_MS)
    }
    while (mending.size > 0) await Promise.race(mending)
  }
  injected.done = run()
  return injected
}

function standing(members: (ChaosMember | undefined)[], random: Random): ChaosMember | undefined {
  const well = members.filter((member): member is ChaosMember => member?.up === true && !member.frozen)
  return well.length === 0 ? undefined : random.pick(well)
}

async function end(
  world: ChaosWorld,
  members: (ChaosMember | undefined)[],
  signal: 'SIGKILL' | 'SIGTERM'
): Promise<boolean> {
  const { random, note, later } = world
  const pauseMs = random.below(4) === 0 ? random.below(2500) : random.below(300)
  const member = standing(members, random)
  if (!member) return false
  note(`${signal} ${member.name} (${member.pid})`)
  later(
    (async () => {
      await member.end(signal)
      note(`${member.name} is gone`)
      await sleep(pauseMs)
      await member.start()
      note(`${member.name} is back (${member.pid})`)
    })()
  )
  return true
}

/** Kills every process, PostgreSQL and the broker too, and starts it all again; what lies already returns by itself. */
function restartEverything({ stack, note, later }: ChaosWorld): void {
  const { postgres } = stack
  const members = stack.members.filter(({ up }) => up)
  const killed: Promise<unknown>[] = members.map(member => member.end('SIGKILL'))
  const database = postgres.up
  if (database) killed.push(postgres.kill())
  note(`SIGKILL ${[...members.map(({ name }) => name), ...(database ? ['postgres'] : [])].join(', ')}`)
  later(
    (async () => {
      await Promise.all(killed)
      await sleep(ALL_DOWN_MS)
      if (database) await postgres.start()
      await Promise.all(members.map(member => member.start()))
      note('everything is back')
    })()
  )
}

async function freeze(world: ChaosWorld, members: (ChaosMember | undefined)[], mostMs: number): Promise<boolean> {
  const { random, note, later } = world
  // Most are short; one in four may outlast permits and time-outs.
  const ms = 100 + random.below(random.below(4) === 0 ? mostMs - 100 : Math.min(1500, mostMs - 100))
  const member = standing(members, random)
  if (!member) return false
  note(`freeze ${member.name} (${member.pid}) for ${ms} ms`)
  member.freeze()
  later(
    sleep(ms).then(() => {
      member.thaw()
      note(`${member.name} goes on`)
    })
  )
  return true
}

async function killPostgres({ stack, random, note, later }: ChaosWorld): Promise<boolean> {
  const { postgres } = stack
  const pauseMs = random.below(1000)
  if (!postgres.up || postgres.frozen) return false
  note('SIGKILL postgres')
  postgres.up = false
  later(
    (async () => {
      await postgres.kill()
      await sleep(pauseMs)
      await postgres.start()
      note('postgres is back')
    })()
  )
  return true
}

async function freezePostgres({ stack, random, note, later }: ChaosWorld, some: boolean): Promise<boolean> {
  const { postgres } = stack
  const ms = 100 + random.below(random.below(4) === 0 ? 5000 : 1200)
  if (!postgres.up || postgres.frozen) return false
  const count = postgres.freeze(some ? () => random.below(3) === 0 : undefined)
  note(`freeze ${count} processes of postgres for ${ms} ms`)
  later(
    sleep(ms).then(() => {
      postgres.thaw()
      note('postgres goes on')
    })
  )
  return true
}

async function cut({ random, note }: ChaosWorld, network: FaultyNetwork | undefined): Promise<boolean> {
  const all = random.below(5) === 0
  if (!network || network.connections === 0) return false
  const count = network.cut(() => all || random.below(4) === 0)
  note(`cut ${count} connections at ${network.port}`)
  return count > 0
}

async function hold(
  { random, note, later }: ChaosWorld,
  network: FaultyNetwork | undefined,
  mostMs: number
): Promise<boolean> {
  const all = random.below(3) === 0
  const direction = random.pick(['both', 'there', 'back'] as const)
  const ms = 50 + random.below(mostMs - 50)
  if (!network || network.connections === 0) return false
  const { held, release } = network.hold(() => all || random.below(3) === 0, direction)
  if (held === 0) return false
  note(`hold ${held} pipes (${direction}) at ${network.port} for ${ms} ms`)
  later(sleep(ms).then(release))
  return true
}

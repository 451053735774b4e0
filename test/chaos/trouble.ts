// What goes wrong, and when: drawn from a seed. Processes are killed, stopped in order, and frozen; their
// connections are cut, and their traffic is held back.
//
// What the order protocol requires of the world is kept: a buy the broker will execute is executed within its own
// time-out (RECONCILE_AFTER_MS). So traffic to the broker is held, and the broker frozen, for less than that;
// all else takes as long as it likes.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Random, seeded } from '../money-storm/random.ts'
import type { ChaosGround } from './ground.ts'
import type { ChaosMember } from './members.ts'
import type { ChaosWire } from './wire.ts'

export interface Trouble {
  /** Deeds by kind, as in 'kill worker'. */
  deeds: Record<string, number>
  /** What was done when, for the stories. */
  log: { at: Date; what: string }[]
  /** Resolves when all deeds are done and what they broke is whole again. */
  done: Promise<void>
}

const MAX_FREEZE_MS = 8000
const MAX_BROKER_PAUSE_MS = 900
const PATIENCE_MS = 20
const ALL_DOWN_MS = 1000

type ChaosDeed = (world: ChaosWorld) => Promise<boolean>

interface ChaosWorld {
  ground: ChaosGround
  random: Random
  note(what: string): void
  later(deed: Promise<unknown>): void
}

/** Kinds of deeds and how often each is drawn. */
const deeds: [weight: number, kind: string, deed: ChaosDeed][] = [
  [13, 'kill worker', world => end(world, world.ground.workers, 'SIGKILL')],
  [5, 'restart worker', world => end(world, world.ground.workers, 'SIGTERM')],
  [28, 'freeze worker', world => freeze(world, world.ground.workers, MAX_FREEZE_MS)],
  [7, 'kill api', world => end(world, world.ground.apis, 'SIGKILL')],
  [3, 'restart api', world => end(world, world.ground.apis, 'SIGTERM')],
  [14, 'freeze api', world => freeze(world, world.ground.apis, MAX_FREEZE_MS)],
  [5, 'kill broker', world => end(world, [world.ground.broker], 'SIGKILL')],
  [6, 'freeze broker', world => freeze(world, [world.ground.broker], MAX_BROKER_PAUSE_MS)],
  [3, 'kill postgres', killPostgres],
  [4, 'freeze postgres', world => freezePostgres(world, false)],
  [3, 'freeze sessions', world => freezePostgres(world, true)],
  [3, 'kill redis', world => end(world, [world.ground.redis], 'SIGKILL')],
  [3, 'freeze redis', world => freeze(world, [world.ground.redis], 3000)],
  [9, 'cut broker', world => cut(world, world.ground.network.broker)],
  [7, 'cut postgres', world => cut(world, world.ground.network.postgres)],
  [2, 'cut redis', world => cut(world, world.ground.network.redis)],
  [7, 'hold broker', world => hold(world, world.ground.network.broker, MAX_BROKER_PAUSE_MS)],
  [3, 'hold postgres', world => hold(world, world.ground.network.postgres, 4000)]
]

const isCut = (kind: string) => /^(cut|hold)/.test(kind)

/** Kills, restarts and freezes, as they are counted; cuts and holds come on top. */
export function countKills(deedsDone: Record<string, number>): number {
  return Object.entries(deedsDone).reduce((sum, [kind, count]) => (isCut(kind) ? sum : sum + count), 0)
}

/**
 * Does harm until `kills` processes were killed, restarted or frozen, spread over `ms`; at most a quarter longer. With
 * `restartAll` everything ends at once half-way, as when a machine loses its power.
 */
export function startTrouble(
  ground: ChaosGround,
  options: { seed: number; kills: number; ms: number; restartAll: boolean }
): Trouble {
  const random = seeded(options.seed)
  const mending = new Set<Promise<unknown>>()
  const trouble: Trouble = { deeds: {}, log: [], done: Promise.resolve() }
  const world: ChaosWorld = {
    ground,
    random,
    note: what => trouble.log.push({ at: new Date(), what }),
    later(deed) {
      const mended: Promise<unknown> = deed
        .catch((error: Error) => world.note(`could not be mended: ${error.message}`))
        .finally(() => mending.delete(mended))
      mending.add(mended)
    }
  }
  const possible = deeds.filter(([, kind]) => ground.redis || !kind.endsWith('redis'))
  const total = possible.reduce((sum, [weight]) => sum + weight, 0)
  const share = possible.reduce((sum, [weight, kind]) => (isCut(kind) ? sum : sum + weight), 0) / total
  const everyMs = (options.ms * share) / options.kills

  const run = async () => {
    let dueAt = performance.now()
    const deadline = dueAt + options.ms * 1.25
    let allAt = options.restartAll ? dueAt + options.ms / 2 : Infinity
    while (countKills(trouble.deeds) < options.kills && performance.now() < deadline) {
      // From nothing to twice the pause: at times several at once.
      dueAt += (everyMs * random.below(2001)) / 1000
      let draw = random.below(total)
      const [, kind, deed] = possible.find(([weight]) => {
        draw -= weight
        return draw < 0
      }) as (typeof deeds)[number]
      const early = dueAt - performance.now()
      if (early > 1) await sleep(early)
      // Behind time (the machine is slow): from here on, not all at once.
      else dueAt = Math.max(dueAt, performance.now() - 500)
      if (performance.now() >= allAt) {
        allAt = Infinity
        restartEverything(world)
        trouble.deeds['restart everything'] = 1
      } else if (await deed(world)) trouble.deeds[kind] = (trouble.deeds[kind] ?? 0) + 1
      else await sleep(PATIENCE_MS)
    }
    while (mending.size > 0) await Promise.race(mending)
  }
  trouble.done = run()
  return trouble
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
function restartEverything({ ground, note, later }: ChaosWorld): void {
  const { postgres } = ground
  const members = ground.members.filter(({ up }) => up)
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

async function killPostgres({ ground, random, note, later }: ChaosWorld): Promise<boolean> {
  const { postgres } = ground
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

async function freezePostgres({ ground, random, note, later }: ChaosWorld, some: boolean): Promise<boolean> {
  const { postgres } = ground
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

async function cut({ random, note }: ChaosWorld, wire: ChaosWire | undefined): Promise<boolean> {
  const all = random.below(5) === 0
  if (!wire || wire.connections === 0) return false
  const count = wire.cut(() => all || random.below(4) === 0)
  note(`cut ${count} connections at ${wire.port}`)
  return count > 0
}

async function hold(
  { random, note, later }: ChaosWorld,
  wire: ChaosWire | undefined,
  mostMs: number
): Promise<boolean> {
  const all = random.below(3) === 0
  const direction = random.pick(['both', 'there', 'back'] as const)
  const ms = 50 + random.below(mostMs - 50)
  if (!wire || wire.connections === 0) return false
  const { held, release } = wire.hold(() => all || random.below(3) === 0, direction)
  if (held === 0) return false
  note(`hold ${held} pipes (${direction}) at ${wire.port} for ${ms} ms`)
  later(sleep(ms).then(release))
  return true
}

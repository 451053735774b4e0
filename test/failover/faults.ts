// What is done to the machines of a failover run. Each fault ends when what it broke is whole again.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../money-storm/random.ts'
import { until } from '../support/until.ts'
import type { Cluster } from './cluster.ts'
import { type Machine, signal } from './machines.ts'

export interface World {
  cluster: Cluster
  random: Random
  note(what: string): void
  /** Resolves when an order has been acknowledged that was not yet when this was called. */
  acknowledged(): Promise<void>
}

export interface ClusterFault {
  kind: string
  /** Whether it takes the primary away, and whether it was planned. */
  of: 'planned' | 'primary' | 'standby' | 'etcd'
  weight: number
  run(world: World): Promise<void>
}

const NEW_PRIMARY_MS = 120_000
// A frozen or cut machine comes back this long after the others went on without it, at most.
const LATE_MS = 6000
// Of faults that need not outlast anything: some do, some do not.
const MOST_MS = 15_000

type Break = (machine: Machine, world: World) => Promise<() => void>

const kill: Break = async machine => {
  await machine.kill()
  return () => machine.start()
}
const freeze: Break = async machine => {
  await machine.freeze()
  return () => machine.thaw()
}
const cut: Break = async machine => {
  machine.cut()
  return () => machine.mend()
}
const ways = { kill, freeze, cut }

const primaries = Object.entries(ways).map(
  ([way, take]): ClusterFault => ({
    kind: `${way} the primary`,
    of: 'primary',
    weight: 12,
    run: async world => {
      const { note, random, acknowledged } = world
      const machine = await primaryOf(world)
      note(`${way} ${machine.name}, the primary`)
      const bringBack = await take(machine, world)
      try {
        await newPrimary(world, machine)
        await acknowledged()
        await sleep(random.below(LATE_MS))
      } finally {
        bringBack()
        note(`${machine.name} is back`)
      }
    }
  })
)

const others = Object.entries(ways).flatMap(([way, take]): ClusterFault[] => [
  {
    kind: `${way} the synchronous standby`,
    of: 'standby',
    weight: 5,
    run: world => away(world, { way, take, find: () => world.cluster.synchronousStandby() })
  },
  {
    kind: `${way} the leader of etcd`,
    of: 'etcd',
    weight: 4,
    run: world => away(world, { way, take, find: () => world.cluster.etcdLeader() })
  }
])

/** All faults, and how often each is drawn. */
export const faults: ClusterFault[] = [
  { kind: 'switchover', of: 'planned', weight: 12, run: switchOver },
  { kind: 'shut the primary down in order', of: 'planned', weight: 12, run: shutDown },
  ...primaries,
  { kind: "kill the primary's PostgreSQL", of: 'primary', weight: 6, run: killServer },
  { kind: 'freeze the primary for a while', of: 'primary', weight: 6, run: freezeForAWhile },
  ...others,
  { kind: 'switchover after etcd was away', of: 'planned', weight: 3, run: switchOverAfterEtcd }
]

/** The faults of a run, of those whose kind contains `only`, or one of several between commas. */
export function drawFaults(random: Random, count: number, only = ''): ClusterFault[] {
  const possible = faults.filter(({ kind }) => only.split(',').some(part => kind.includes(part)))
  if (possible.length === 0) throw new Error(`No fault is called ${only}: ${faults.map(({ kind }) => kind).join(', ')}`)
  const total = possible.reduce((sum, { weight }) => sum + weight, 0)
  const draw = (): ClusterFault => {
    let left = random.below(total)
    return possible.find(({ weight }) => {
      left -= weight
      return left < 0
    }) as ClusterFault
  }
  return Array.from({ length: count }, draw)
}

async function switchOver({ cluster, note, acknowledged }: World): Promise<void> {
  const machine = await cluster.whole()
  note(`switchover from ${machine.name}`)
  note(await cluster.switchOver(machine))
  await acknowledged()
}

/** The primary requests the agreement of the other members to stay; for a while they take it for the leader, also when its key is free. */
async function switchOverAfterEtcd(world: World): Promise<void> {
  const { cluster, note } = world
  note('freeze all of etcd')
  await Promise.all(cluster.etcds.map(machine => machine.freeze()))
  try {
    await until('the primary to go on without etcd', () => cluster.failsafe(), NEW_PRIMARY_MS)
  } finally {
    for (const machine of cluster.etcds) machine.thaw()
    note('etcd goes on')
  }
  await switchOver(world)
}

/** Ends Patroni and its server by SIGTERM, as an upgrade of the machine does. */
async function shutDown(world: World): Promise<void> {
  const machine = await world.cluster.whole()
  world.note(`shut ${machine.name} down, the primary`)
  const down = machine.shutDown()
  try {
    await newPrimary(world, machine)
    await world.acknowledged()
    await down
  } finally {
    machine.start()
    world.note(`${machine.name} is back`)
  }
}

/** Kills a server under a Patroni that is well: it is started again where it is, or another takes over. */
async function killServer({ cluster, note, acknowledged, ...world }: World): Promise<void> {
  const machine = await primaryOf({ cluster, note, acknowledged, ...world })
  const [postmaster] = cluster.serverPids(machine) as [number]
  note(`kill PostgreSQL of ${machine.name}, the primary`)
  signal(postmaster, 'SIGKILL')
  await acknowledged()
}

/** Shorter than the key lasts, or longer; nobody looks before it wakes. */
async function freezeForAWhile(world: World): Promise<void> {
  const machine = await primaryOf(world)
  const ms = 1000 + world.random.below(MOST_MS)
  world.note(`freeze ${machine.name}, the primary, for ${ms} ms`)
  await machine.freeze()
  await sleep(ms)
  machine.thaw()
  world.note(`${machine.name} goes on`)
  await world.acknowledged()
}

async function away(
  world: World,
  { way, take, find }: { way: string; take: Break; find: () => Promise<Machine | undefined> }
): Promise<void> {
  const machine = await until('a machine to take away', find, NEW_PRIMARY_MS)
  const ms = 1000 + world.random.below(MOST_MS)
  world.note(`${way} ${machine.name} for ${ms} ms`)
  const bringBack = await take(machine, world)
  try {
    await world.acknowledged()
    await sleep(ms)
  } finally {
    bringBack()
    world.note(`${machine.name} is back`)
  }
  await world.acknowledged()
}

const primaryOf = ({ cluster }: World) => until('a primary', () => cluster.primary(), NEW_PRIMARY_MS)

const newPrimary = ({ cluster }: World, old: Machine) =>
  until(
    'a new primary',
    async () => {
      const found = await cluster.primary()
      return found !== undefined && found !== old && found
    },
    NEW_PRIMARY_MS
  )

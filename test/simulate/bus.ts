// The wake-ups of a simulation: hints travel between its processes, get lost, and come twice.
import type { Bus } from '../../db/platform/bus.ts'
import type { Chance, Counts } from './chance.ts'
import type { Actor, Schedule } from './clock.ts'

// Waits end in bunches.
const GRID_MS = 100

type Listener = Parameters<Bus['listen']>[1]

interface Hub {
  of(actor: Actor): Bus
}

export function openHub(world: { schedule: Schedule; chance: Chance; counts: Counts; lossy(): number }): Hub {
  const { schedule, chance, counts } = world
  const channels = new Map<string, Set<{ actor: Actor; listener: Listener }>>()

  return {
    of(actor) {
      const waiters = new Map<string, Set<(carried?: string) => void>>()
      // Who gives up waiting at the same time does so in one go, as a process's timers end.
      const ends = new Map<number, Set<() => void>>()
      const endAt = (at: number, done: () => void) => {
        const known = ends.get(at)
        const set = known ?? new Set()
        set.add(done)
        if (!known) {
          ends.set(at, set)
          schedule.after(at - schedule.now, actor, 'waited', () => {
            ends.delete(at)
            for (const each of set) each()
          })
        }
        return () => set.delete(done)
      }
      const replyChannel = `replies-${actor.name}`
      const listen: Bus['listen'] = async (channel, listener) => {
        const entry = { actor, listener }
        const set = channels.get(channel) ?? new Set()
        channels.set(channel, set.add(entry))
        return () => void set.delete(entry)
      }
      void listen(replyChannel, ({ topic, id, carried }) => {
        for (const wake of waiters.get(`${topic} ${id}`) ?? []) wake(carried)
      })
      return {
        replyChannel,
        // A hint sent with a commit could neither be lost nor come twice.
        inStatements: false,
        listen,
        publish(channel, topic, id, carried) {
          for (const entry of channels.get(channel) ?? []) {
            if (entry.actor.dead) channels.get(channel)?.delete(entry)
            const times = chance.is(world.lossy()) ? (chance.is(0.5) ? 0 : 2) : 1
            if (times !== 1) counts.add(times === 0 ? 'hint: lost' : 'hint: twice')
            for (let i = 0; i < times; i++)
              schedule.after(chance.int(1, 8), entry.actor, `hint ${topic}`, () =>
                entry.listener({ topic, id, ...(carried ? { carried } : {}) })
              )
          }
        },
        wait(topic, id, timeoutMs, signal) {
          const key = `${topic} ${id}`
          return new Promise(resolve => {
            const set = waiters.get(key) ?? new Set()
            waiters.set(key, set)
            const done = (carried?: string) => {
              cancel()
              signal?.removeEventListener('abort', giveUp)
              set.delete(done)
              if (set.size === 0 && waiters.get(key) === set) waiters.delete(key)
              resolve(carried)
            }
            const giveUp = () => done()
            const cancel = endAt(Math.ceil((schedule.now + timeoutMs) / GRID_MS) * GRID_MS, giveUp)
            set.add(done)
            signal?.addEventListener('abort', giveUp, { once: true })
            if (signal?.aborted) giveUp()
          })
        },
        healthy: () => true,
        async close() {}
      }
    }
  }
}

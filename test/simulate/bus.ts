// The wake-ups of a simulation: hints travel between its processes, get lost, and come twice.
import type { Bus } from '../../db/bus.ts'
import type { Chance, Counts } from './chance.ts'
import type { Actor, Schedule } from './clock.ts'

type Hear = Parameters<Bus['hear']>[1]

export interface Hub {
  of(actor: Actor): Bus
}

export function openHub(world: { schedule: Schedule; chance: Chance; counts: Counts; lossy(): number }): Hub {
  const { schedule, chance, counts } = world
  const channels = new Map<string, Set<{ actor: Actor; hear: Hear }>>()

  return {
    of(actor) {
      const waiters = new Map<string, Set<() => void>>()
      const origin = `origin-${actor.name}`
      const hear: Bus['hear'] = async (channel, listener) => {
        const entry = { actor, hear: listener }
        const set = channels.get(channel) ?? new Set()
        channels.set(channel, set.add(entry))
        return () => void set.delete(entry)
      }
      void hear(origin, ({ topic, id }) => {
        for (const wake of waiters.get(`${topic} ${id}`) ?? []) wake()
      })
      return {
        origin,
        hear,
        publish(channel, topic, id) {
          for (const entry of channels.get(channel) ?? []) {
            if (entry.actor.dead) channels.get(channel)?.delete(entry)
            const times = chance.is(world.lossy()) ? (chance.is(0.5) ? 0 : 2) : 1
            if (times !== 1) counts.add(times === 0 ? 'hint: lost' : 'hint: twice')
            for (let i = 0; i < times; i++)
              schedule.after(chance.int(1, 8), entry.actor, `hint ${topic}`, () => entry.hear({ topic, id }))
          }
        },
        wait(topic, id, timeoutMs, signal) {
          const key = `${topic} ${id}`
          return new Promise(resolve => {
            const set = waiters.get(key) ?? new Set()
            waiters.set(key, set)
            const done = () => {
              cancel()
              set.delete(done)
              if (set.size === 0 && waiters.get(key) === set) waiters.delete(key)
              resolve()
            }
            const cancel = schedule.onGrid(timeoutMs, 100, actor, 'waited', done)
            set.add(done)
            signal?.addEventListener('abort', done, { once: true })
            if (signal?.aborted) done()
          })
        },
        healthy: () => true,
        async close() {}
      }
    }
  }
}

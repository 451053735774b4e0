// How many test files run beside each other: tests wait for events a good part of their time, so there are more lanes than
// cores, and further ones while cores are idle all the same.
import { cpus } from 'node:os'

const LOOK_MS = 1_000
const IDLE = 0.15

interface LaneOptions<T> {
  /** Lanes in any case; further ones, up to `most`, while cores are idle. */
  width: number
  most: number
  run(item: T): Promise<void>
  signal: AbortSignal
  /** The share of the cores' time since the last call in which they were idle. */
  idle?: () => number
  lookMs?: number
}

/** Runs every item, the first ones first, each in one of the lanes; rejects when one of them does. */
export async function inLanes<T>(items: readonly T[], options: LaneOptions<T>): Promise<void> {
  const { width, most, run, signal, idle = idleShare(), lookMs = LOOK_MS } = options
  const waiting = [...items]
  const lanes = new Set<Promise<void>>()
  let coresIdle = false
  const runLane = async (further: boolean) => {
    while (!signal.aborted) {
      const item = waiting.shift()
      if (item === undefined) break
      await run(item)
      if (further && !coresIdle) break
    }
  }
  const start = (further: boolean) => {
    const lane = runLane(further).then(() => void lanes.delete(lane))
    lanes.add(lane)
  }
  for (let count = 0; count < Math.min(width, items.length); count++) start(false)
  const looking = setInterval(() => {
    coresIdle = idle() > IDLE
    if (coresIdle && waiting.length > 0 && lanes.size < most) start(true)
  }, lookMs)
  try {
    while (lanes.size > 0) await Promise.all(lanes)
  } finally {
    clearInterval(looking)
  }
}

/** Measures how idle this machine's cores are, from one call to the next. */
function idleShare(): () => number {
  const read = () =>
    cpus().reduce(
      (sum, { times }) => ({
        idle: sum.idle + times.idle,
        all: sum.all + times.idle + times.user + times.nice + times.sys + times.irq
      }),
      { idle: 0, all: 0 }
    )
  let before = read()
  return () => {
    const now = read()
    const share = (now.idle - before.idle) / Math.max(1, now.all - before.all)
    before = now
    return share
  }
}

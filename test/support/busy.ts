// How much longer the last resort of a wait is while the machine is busy.
import { availableParallelism, loadavg } from 'node:os'

const MOST = 6

/**
 * A time-out that only ends what would never end by itself, longer by how many processes share a core, at most six times.
 * Not for times that the service promises: those hold on any machine.
 */
export function stretched(ms: number): number {
  const [lastMinute = 0] = loadavg()
  return ms * Math.min(MOST, Math.max(1, Math.ceil(lastMinute / availableParallelism())))
}

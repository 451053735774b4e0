// Instants that options name.
import { UsageError } from './refusals.ts'

/** The instant that `option` names: with its zone, or the beginning of a day, UTC. Throws UsageError for a day there is not. */
export function instantOf(option: string, text: string): Date {
  const instant = new Date(text)
  const day = text.slice(0, 10)
  // Date takes 31 February for 3 March.
  if (Number.isNaN(instant.getTime()) || new Date(day).toISOString().slice(0, 10) !== day)
    throw new UsageError(`${option} names no day or time there is: ${text}`)
  return instant
}

// Free-form JSON that is kept as it is: bounded in size and depth.
import { ApiError } from '../errors/errors.ts'

const MAX_BYTES = 16_384
const MAX_DEPTH = 20

/** What is allowed, in words for a description. */
export const freeformLimits = `At most ${MAX_BYTES / 1024} KiB of JSON, nested ${MAX_DEPTH} deep at most.`

/** Throws VALIDATION_FAILED when `value`, found at `path` of the request, is too large or too deep. */
export function checkFreeform(value: object, path: string): void {
  const message = wrongWith(value)
  if (message)
    throw new ApiError('VALIDATION_FAILED', `${path} ${message}`, { extras: { details: [{ path, message }] } })
}

function wrongWith(value: object): string | undefined {
  // Depth first, and level by level: neither this walk nor stringify below can run out of stack.
  let level: unknown[] = [value]
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_DEPTH + 1) return `must not be nested deeper than ${MAX_DEPTH} levels`
    const next: unknown[] = []
    for (const item of level)
      if (item !== null && typeof item === 'object') for (const inner of Object.values(item)) next.push(inner)
    level = next
  }
  return Buffer.byteLength(JSON.stringify(value)) > MAX_BYTES ? `must not be larger than ${MAX_BYTES} bytes` : undefined
}

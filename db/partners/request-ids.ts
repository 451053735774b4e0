// Request ids that the service makes: UUIDs of version 7 (RFC 9562), whose first 48 bits are the time, so that the request log is
// read around that time instead of as a whole. Callers' ids may be of any form.
import { randomUUID } from 'node:crypto'

const VERSION_7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i

/** A new request id. */
export function newRequestId(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** When an id was made that carries its time; undefined for others. */
export function timeOfRequestId(id: string): Date | undefined {
  const [, high, low] = VERSION_7.exec(id) ?? []
  return high === undefined || low === undefined ? undefined : new Date(Number.parseInt(high + low, 16))
}

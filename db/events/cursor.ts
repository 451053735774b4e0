// Cursors of the event log: one AES block under a key of the partner, derived from the pepper. So a cursor is good for its own
// partner alone, and shows neither a position nor how many events lie between two of them.
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import type { Pepper } from '../platform/crypto.ts'

/** A point in a partner's log: after the event at `position`. */
export interface Point {
  epoch: number
  position: number
  /** The partition of that event, in days since 1970; 0 before the first. */
  day: number
}

// Distinguishes a block made here from any other, together with the range of the day.
const MAGIC = 0x65763122
const MAX_KEYS = 5000
const keys = new WeakMap<Pepper, Map<string, Buffer>>()

function keyOf(pepper: Pepper, partnerId: string): Buffer {
  let known = keys.get(pepper)
  if (!known) {
    known = new Map()
    keys.set(pepper, known)
  }
  let key = known.get(partnerId)
  if (!key) {
    if (known.size >= MAX_KEYS) known.clear()
    key = createHmac('sha256', pepper).update(`event cursor ${partnerId}`).digest().subarray(0, 16)
    known.set(partnerId, key)
  }
  return key
}

/** The text of a point, 22 characters. */
export function writeCursor(pepper: Pepper, partnerId: string, { epoch, position, day }: Point): string {
  const block = Buffer.alloc(16)
  block.writeUInt32BE(MAGIC, 0)
  block.writeUInt32BE(epoch, 4)
  block.writeUInt16BE(day, 8)
  block.writeUIntBE(position, 10, 6)
  const cipher = createCipheriv('aes-128-ecb', keyOf(pepper, partnerId), null).setAutoPadding(false)
  return Buffer.concat([cipher.update(block), cipher.final()]).toString('base64url')
}

/** The point of a cursor; undefined for a text that is none, or another partner's. */
export function readCursor(pepper: Pepper, partnerId: string, cursor: string): Point | undefined {
  if (!/^[A-Za-z0-9_-]{22}$/.test(cursor)) return undefined
  const decipher = createDecipheriv('aes-128-ecb', keyOf(pepper, partnerId), null).setAutoPadding(false)
  const block = Buffer.concat([decipher.update(Buffer.from(cursor, 'base64url')), decipher.final()])
  if (block.readUInt32BE(0) !== MAGIC) return undefined
  return { epoch: block.readUInt32BE(4), day: block.readUInt16BE(8), position: block.readUIntBE(10, 6) }
}

// Cursors of the event log: one AES block under a key of the partner, derived from the pepper. So a cursor is good for its own
// partner alone, and shows neither a position nor how many events lie between two of them. For a browser it is hidden in another
// way: two equal cursors would show that nothing happened to the partner in between.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
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
const NONCE_BYTES = 12
const TAG_BYTES = 16
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

function blockOf({ epoch, position, day }: Point): Buffer {
  const block = Buffer.alloc(16)
  block.writeUInt32BE(MAGIC, 0)
  block.writeUInt32BE(epoch, 4)
  block.writeUInt16BE(day, 8)
  block.writeUIntBE(position, 10, 6)
  return block
}

/** The text of a point, 22 characters. */
export function writeCursor(pepper: Pepper, partnerId: string, point: Point): string {
  const cipher = createCipheriv('aes-128-ecb', keyOf(pepper, partnerId), null).setAutoPadding(false)
  return Buffer.concat([cipher.update(blockOf(point)), cipher.final()]).toString('base64url')
}

const hidingKey = (pepper: Pepper, partnerId: string) => keyOf(pepper, `${partnerId} hidden`)

/** Another text of a point, 59 characters, a different one each time. It cannot be altered into that of another point. */
export function writeHiddenCursor(pepper: Pepper, partnerId: string, point: Point): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-128-gcm', hidingKey(pepper, partnerId), nonce)
  const hidden = [nonce, cipher.update(blockOf(point)), cipher.final(), cipher.getAuthTag()]
  return Buffer.concat(hidden).toString('base64url')
}

function uncovered(pepper: Pepper, partnerId: string, hidden: Buffer): Buffer | undefined {
  const nonce = hidden.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv('aes-128-gcm', hidingKey(pepper, partnerId), nonce, { authTagLength: TAG_BYTES })
  decipher.setAuthTag(hidden.subarray(-TAG_BYTES))
  const block = decipher.update(hidden.subarray(NONCE_BYTES, -TAG_BYTES))
  try {
    decipher.final()
    return block
  } catch {
    return undefined
  }
}

/** The point of a cursor; undefined for a text that is none, or another partner's. */
export function readCursor(pepper: Pepper, partnerId: string, cursor: string): Point | undefined {
  if (!/^(?:[A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{59})$/.test(cursor)) return undefined
  const bytes = Buffer.from(cursor, 'base64url')
  const block = bytes.length > 16 ? uncovered(pepper, partnerId, bytes) : decrypted(pepper, partnerId, bytes)
  if (block?.readUInt32BE(0) !== MAGIC) return undefined
  return { epoch: block.readUInt32BE(4), day: block.readUInt16BE(8), position: block.readUIntBE(10, 6) }
}

function decrypted(pepper: Pepper, partnerId: string, bytes: Buffer): Buffer {
  const decipher = createDecipheriv('aes-128-ecb', keyOf(pepper, partnerId), null).setAutoPadding(false)
  return Buffer.concat([decipher.update(bytes), decipher.final()])
}

// Base58Check: the form of payment addresses. Its last four bytes are a checksum of the others, so that a mistyped or
// made-up address is found without any service's data.
import { createHash } from 'node:crypto'

const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
/** A version, twenty bytes of a hash, and the checksum. */
const ADDRESS_BYTES = 25

/** Whether a text is an address whose checksum is right; its owner and its existence remain unknown. */
export function isBase58Check(address: string): boolean {
  let value = 0n
  for (const character of address) {
    const digit = alphabet.indexOf(character)
    if (digit < 0) return false
    value = value * 58n + BigInt(digit)
  }
  const hex = value.toString(16).padStart(ADDRESS_BYTES * 2, '0')
  if (hex.length > ADDRESS_BYTES * 2) return false
  const bytes = Buffer.from(hex, 'hex')
  const checksum = sha256(sha256(bytes.subarray(0, -4))).subarray(0, 4)
  return checksum.equals(bytes.subarray(-4))
}

function sha256(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest()
}

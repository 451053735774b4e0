// Secrets at rest. Broker tokens are sealed with AES-256-GCM under a random nonce and bound to their row;
// API keys and sessions are kept only as hashes under a pepper that is itself sealed in the database.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual
} from 'node:crypto'
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { ConfigError } from '../../schemas/config/config.ts'
import type { Db } from '../postgres/connection.ts'

export interface Sealed {
  keyId: string
  sealed: Buffer
}

export interface Vault {
  /** Encrypts `text` for the row `context`; under another context it cannot be opened. */
  seal(text: string, context: string): Sealed
  /** Decrypts; throws when the key is unknown, the context differs or the bytes were changed. */
  open(sealed: Sealed, context: string): string
  /** The key that encrypts now. */
  readonly keyId: string
  /** Every key that decrypts, the encrypting one first. */
  readonly keyIds: readonly string[]
}

/** What every hash of a key or a session is made with; a key object, since making one costs more than a hash. */
export type Pepper = KeyObject

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The vault of a TOKEN_KEYS value: `id:base64key[,…]`, the first key encrypts, all decrypt. */
export function openVault(tokenKeys: string): Vault {
  const keys = new Map<string, Buffer>()
  for (const part of tokenKeys.split(',')) {
    const [id, key] = part.split(/:(.*)/s) as [string, string]
    const bytes = Buffer.from(key, 'base64')
    if (bytes.length !== 32) throw new ConfigError(`TOKEN_KEYS: the key '${id}' is not 32 bytes in base64`)
    if (keys.has(id)) throw new ConfigError(`TOKEN_KEYS: the key id '${id}' is there twice`)
    keys.set(id, bytes)
  }
  const [keyId, current] = keys.entries().next().value as [string, Buffer]
  return {
    keyId,
    keyIds: [...keys.keys()],
    seal(text, context) {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', current, nonce, { authTagLength: TAG_BYTES }).setAAD(
        Buffer.from(context)
      )
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return { keyId, sealed: Buffer.concat([nonce, cipher.getAuthTag(), body]) }
    },
    open({ keyId: id, sealed }, context) {
      const key = keys.get(id)
      if (!key) throw new Error(`no token key has the id '${id}': add it to TOKEN_KEYS`)
      const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES
      })
        .setAAD(Buffer.from(context))
        .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString(
        'utf8'
      )
    }
  }
}

/**
 * TOKEN_KEYS, or without it the keys kept in the data directory, made at first use. Keys in a file are
 * for one machine; several machines need the same TOKEN_KEYS.
 */
export function tokenKeysOf({ tokenKeys, dataDir }: { tokenKeys: string | undefined; dataDir: string }): string {
  if (tokenKeys) return tokenKeys
  const file = join(dataDir, 'token-keys')
  if (!existsSync(file)) {
    mkdirSync(dataDir, { recursive: true })
    const draft = `${file}.${process.pid}`
    // On the disk before anything is sealed: a database whose keys a loss of power took can be opened no more.
    writeFileSync(draft, `k1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flush: true })
    chmodSync(draft, 0o600)
    // Two processes may start at once: the first link wins and both read the same keys.
    try {
      linkSync(draft, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    } finally {
      rmSync(draft)
    }
  }
  return readFileSync(file, 'utf8').trim()
}

/**
 * The installation's pepper, made at first use. Throws ConfigError when the token keys at hand cannot
 * open it: they are not the ones this database was used with.
 */
export async function openPepper(db: Db, vault: Vault): Promise<Pepper> {
  const fresh = vault.seal(randomBytes(32).toString('base64'), 'secrets:pepper')
  await db('secrets').insert({ name: 'pepper', key_id: fresh.keyId, sealed: fresh.sealed }).onConflict('name').ignore()
  const row = (await db('secrets').where({ name: 'pepper' }).first('key_id', 'sealed')) as {
    key_id: string
    sealed: Buffer
  }
  try {
    return createSecretKey(vault.open({ keyId: row.key_id, sealed: row.sealed }, 'secrets:pepper'), 'base64')
  } catch (cause) {
    throw new ConfigError(
      `TOKEN_KEYS are not the keys of this database: its secrets are sealed under '${row.key_id}'`,
      { cause }
    )
  }
}

/** Seals the pepper with the key that encrypts now. Returns whether another key had sealed it. */
export async function resealPepper(trx: Db, vault: Vault): Promise<boolean> {
  const { keyId, sealed } = vault.seal((await openPepper(trx, vault)).export().toString('base64'), 'secrets:pepper')
  const moved = await trx('secrets')
    .where({ name: 'pepper' })
    .whereNot({ key_id: keyId })
    .update({ key_id: keyId, sealed })
  return moved === 1
}

/** HMAC-SHA256 under the pepper: what is stored of a key or a session. */
export function hashSecret(pepper: Pepper, secret: string): Buffer {
  return createHmac('sha256', pepper).update(secret).digest()
}

/** Compares hashes in constant time. */
export function sameHash(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

/** A new session token: 256 random bits, URL-safe. */
export function newToken(): string {
  return randomBytes(32).toString('base64url')
}

interface ApiKey {
  key: string
  lookup: string
  secret: string
  /** Whether it is a key of the test side. */
  test: boolean
}

const KEY_PATTERN = /^service_(live|test)_([0-9a-f]{16})_([0-9a-f]{48})$/

// The checksum covers the side, so that a test key with its prefix changed is no key.
function checksum(lookup: string, random: string, test: boolean): string {
  return crc32(`${test ? 'test_' : ''}${lookup}_${random}`)
    .toString(16)
    .padStart(8, '0')
}

/** What the keys of a side begin with. */
export const keyPrefix = (test: boolean): string => (test ? 'service_test_' : 'service_live_')

/** A new API key: 16 hex characters to find it, 40 random ones, 8 of checksum. */
export function newApiKey(test = false): ApiKey {
  const lookup = randomBytes(8).toString('hex')
  const random = randomBytes(20).toString('hex')
  const secret = random + checksum(lookup, random, test)
  return { key: `${keyPrefix(test)}${lookup}_${secret}`, lookup, secret, test }
}

/** The parts of a key, or undefined when it is malformed or its checksum is wrong. */
export function parseApiKey(key: string): ApiKey | undefined {
  const [, side, lookup, secret] = KEY_PATTERN.exec(key) ?? []
  const test = side === 'test'
  if (!lookup || !secret || secret.slice(40) !== checksum(lookup, secret.slice(0, 40), test)) return undefined
  return { key, lookup, secret, test }
}

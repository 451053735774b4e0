// Passwords of traders: argon2id, computed on threads so that the event loop goes on, a few at a time so
// that memory stays bounded (19 MiB each).
import { hash, verify } from '@node-rs/argon2'
import { Overloaded } from '../postgres/batch.ts'
import { Turns } from './turns.ts'

// OWASP's first choice for argon2id: 19 MiB, two passes, one lane; some 15 ms of one core.
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

// A password is compared with this where there is no account: a hash of the same cost.
const NOBODY = '$argon2id$v=19$m=19456,t=2,p=1$sa/6BO4GIXD8MZ+AXjnTTg$OgCcg1P/8JoX0pzI52MNHpgceIPsmFJJJ02au2dYHNs'

const AT_ONCE = 2
const MAX_WAITING_OF_PARTNER = 40
const waiting = new Turns<() => void>()
let active = 0

/** Runs `work` when a place is free; partners take turns. Throws Overloaded when too much of this partner's waits already. */
async function inTurn<T>(partnerId: string, work: () => Promise<T>): Promise<T> {
  if (active >= AT_ONCE) {
    if (waiting.countOf(partnerId) >= MAX_WAITING_OF_PARTNER)
      throw new Overloaded('Too many passwords are being checked.')
    await new Promise<void>(resolve => waiting.add(partnerId, resolve))
  } else active += 1
  try {
    return await work()
  } finally {
    const next = waiting.take()
    if (next) next()
    else active -= 1
  }
}

// The same password typed on two keyboards may arrive composed or decomposed.
const plain = (password: string) => password.normalize('NFKC')

/** The argon2id hash of a password, with its salt and cost; `partnerId` is whose turn it takes. Throws Overloaded. */
export async function hashPassword(partnerId: string, password: string): Promise<string> {
  return inTurn(partnerId, () => hash(plain(password), cost))
}

/**
 * Whether the password is the one behind `known`. Without an account it is compared with a dummy hash, so that an
 * unknown e-mail costs the same time as a wrong password. Throws Overloaded.
 */
export async function isPassword(partnerId: string, known: string | undefined, password: string): Promise<boolean> {
  const right = await inTurn(partnerId, () => verify(known ?? NOBODY, plain(password)))
  return right && known !== undefined
}

// The 18,000 passwords of at least 8 characters that leaked most often; read when the first one is chosen.
let common: Promise<ReadonlySet<string>> | undefined

async function readCommon(): Promise<ReadonlySet<string>> {
  const { dictionary } = await import('@zxcvbn-ts/language-common')
  return new Set((dictionary['passwords-common'] as string[]).filter(({ length }) => length >= 8))
}

/** Whether a password is on the list of those guessed first, regardless of case. */
export async function isCommonPassword(password: string): Promise<boolean> {
  common ??= readCommon().catch(error => {
    // The next one tries again.
    common = undefined
    throw error
  })
  return (await common).has(plain(password).toLowerCase())
}

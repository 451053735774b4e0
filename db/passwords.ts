// Passwords of traders: argon2id, computed on threads so that the event loop goes on, a few at a time so
// that memory stays bounded (19 MiB each).
import { hash, verify } from '@node-rs/argon2'
import { Overloaded } from './gather.ts'

// OWASP's first choice for argon2id: 19 MiB, two passes, one lane; some 15 ms of one core.
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const

// What a password is compared with when there is no account: nobody's, of the same cost.
const NOBODY = '$argon2id$v=19$m=19456,t=2,p=1$sa/6BO4GIXD8MZ+AXjnTTg$OgCcg1P/8JoX0pzI52MNHpgceIPsmFJJJ02au2dYHNs'

const AT_ONCE = 2
const MAX_WAITING = 200
const waiting: (() => void)[] = []
let active = 0

/** Runs `work` when a place is free. Throws Overloaded when too many wait already. */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (active >= AT_ONCE) {
    if (waiting.length >= MAX_WAITING) throw new Overloaded('Too many passwords are being checked.')
    await new Promise<void>(resolve => waiting.push(resolve))
  } else active += 1
  try {
    return await work()
  } finally {
    // The place goes to the next in line, or is free again.
    const next = waiting.shift()
    if (next) next()
    else active -= 1
  }
}

// The same password typed on two keyboards may arrive composed or decomposed.
const plain = (password: string) => password.normalize('NFKC')

/** The argon2id hash of a password, with its salt and cost. Throws Overloaded. */
export async function hashPassword(password: string): Promise<string> {
  return inTurn(() => hash(plain(password), cost))
}

/**
 * Whether the password is the one behind `known`. Without an account it is compared with nobody's, so that
 * an unknown e-mail costs what a wrong password costs. Throws Overloaded.
 */
export async function isPassword(known: string | undefined, password: string): Promise<boolean> {
  const right = await inTurn(() => verify(known ?? NOBODY, plain(password)))
  return right && known !== undefined
}

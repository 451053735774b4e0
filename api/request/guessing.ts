// Bounds on guessing passwords and on finding out e-mails. Failures are counted by e-mail, by the end user's address
// where the partner passes it (X-End-User-IP), and by partner. Many failures make the next attempts slow, one at a
// time; they do not refuse them, so an attacker cannot lock the right password out. An address without failures is not
// slowed by others.

import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from 'koa'
import { backOff } from '../../db/platform/back-off.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices } from '../operation.ts'

const WINDOW_SECONDS = 900
/** Never reached: these counters only count, they refuse nothing. */
const COUNTED = 1_000_000

/** Failures within the window that cost nothing. */
const FREE = { ofEmail: 10, ofAddress: 30, ofEmailEverywhere: 100, ofPartner: 2000 } as const
/** A partner with more failures than this gets no new counters: each counter takes memory. */
const MAX_COUNTERS = 20_000
const DELAYS = { firstMs: 250, mostMs: 8000 }
const PARTNER_DELAY_MS = 1000
/** Attempts of one e-mail and address that wait behind the delayed one; and of a partner while it has too many failures. */
const WAITING_OF_LANE = 3
const AT_ONCE_OF_PARTNER = 10

interface Guess {
  /** What is attempted; each is counted for itself. */
  what: 'login' | 'signup' | 'password'
  partnerId: string
  /** The e-mail or the id that is guessed at. */
  subject: string
  endUserIp: string | undefined
  /** Aborts when the caller goes away. */
  signal: AbortSignal
}

/** The end user's address in X-End-User-IP; of IPv6 the network that one user has, /64. Throws VALIDATION_FAILED. */
export function endUserIpOf(ctx: Context): string | undefined {
  const header = ctx.request.headers['x-end-user-ip']
  if (header === undefined) return undefined
  const address = String(header).trim()
  const version = isIP(address)
  if (version === 0) throw invalid([{ path: '/header/X-End-User-IP', message: 'must be one IPv4 or IPv6 address' }])
  if (version === 4) return address
  // The URL parser writes each address in one way only.
  const text = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1)
  // What a server that listens for both kinds of addresses calls an IPv4 one: all of them are in one network of IPv6.
  const mapped = /^::ffff:([\da-f]+):([\da-f]+)$/.exec(text)
  if (mapped) {
    const [high = 0, low = 0] = mapped.slice(1).map(group => Number.parseInt(group, 16))
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  const [head = '', tail = ''] = text.split('::')
  const groups = head.split(':').filter(Boolean)
  const missing = 8 - groups.length - tail.split(':').filter(Boolean).length
  return [...groups, ...Array<string>(missing).fill('0')].slice(0, 4).join(':')
}

/**
 * Runs `check` within the bounds on guessing and returns its result; undefined is a failure. An attempt is counted as a failure
 * before its result is known, so that simultaneous guesses count as well. Throws RATE_LIMITED with Retry-After where too many
 * attempts wait already.
 */
export async function guarded<T>(
  guess: Guess,
  { limits }: Pick<ApiServices, 'limits'>,
  check: () => Promise<T | undefined>
): Promise<T | undefined> {
  const counters = await countAttempt(guess, limits)
  const undo = async (failed: boolean) => {
    await Promise.all(
      counters.names.map(name =>
        // A success resets the counters of its e-mail; in those of address and partner only this attempt is taken back.
        !failed && counters.ofSubject.includes(name)
          ? limits.forget(name, COUNTED, WINDOW_SECONDS)
          : limits.giveBack(name, COUNTED, WINDOW_SECONDS)
      )
    )
  }
  let found: T | undefined
  try {
    found = await slowed(counters, guess.signal, check)
  } catch (error) {
    await undo(true)
    throw error
  }
  if (found !== undefined) await undo(false)
  else if (counters.late) await limits.hit(counters.late, COUNTED, WINDOW_SECONDS)
  return found
}

interface GuessCounters {
  names: string[]
  ofSubject: string[]
  delayMs: number
  /** Attempts that share a queue while they are slowed, and how many run at once. */
  lane: string
  atOnce: number
  /** Counted only once the attempt has failed. */
  late?: string
}

async function countAttempt(
  { what, partnerId, subject, endUserIp }: Guess,
  limits: ApiServices['limits']
): Promise<GuessCounters> {
  // Hashed, so that a counter's name is short and does not contain an address.
  const digest = (text: string) => createHash('sha256').update(text.toLowerCase()).digest('base64url')
  const hit = async (name: string) => COUNTED - (await limits.hit(name, COUNTED, WINDOW_SECONDS)).remaining - 1
  const ofPartner = `${what}s:${partnerId}`
  const ofEmail = `${what}:${partnerId}:${digest(subject)}`
  const ofAddress = endUserIp && `${what} from:${partnerId}:${digest(endUserIp)}`
  const ofBoth = endUserIp && `${what} of from:${partnerId}:${digest(`${subject} ${endUserIp}`)}`
  const failures = await hit(ofPartner)
  if (failures < FREE.ofPartner) {
    const names = [ofEmail, ...(ofAddress && ofBoth ? [ofAddress, ofBoth] : [])]
    const [email = 0, address = 0, both = 0] = await Promise.all(names.map(hit))
    const delays = ofBoth
      ? [delayOf(both, FREE.ofEmail), delayOf(address, FREE.ofAddress), delayOf(email, FREE.ofEmailEverywhere)]
      : [delayOf(email, FREE.ofEmail)]
    const ofSubject = [ofEmail, ...(ofBoth ? [ofBoth] : [])]
    return { names: [ofPartner, ...names], ofSubject, delayMs: Math.max(...delays), lane: ofBoth ?? ofEmail, atOnce: 1 }
  }
  // One client tries many e-mails: no counters are made for them, which would fill the memory. Existing counters still apply.
  const known = (name: string) => limits.count(name, COUNTED, WINDOW_SECONDS)
  const [email, address] = await Promise.all([known(ofEmail), ofAddress ? known(ofAddress) : undefined])
  const late = ofAddress && failures <= MAX_COUNTERS ? { late: ofAddress } : {}
  const isSpared = address === 0 && failures <= MAX_COUNTERS
  const delayMs = isSpared ? 0 : Math.max(PARTNER_DELAY_MS, delayOf(email, FREE.ofEmail))
  return { names: [ofPartner], ofSubject: [], delayMs, lane: ofPartner, atOnce: AT_ONCE_OF_PARTNER, ...late }
}

function delayOf(failures: number, free: number): number {
  if (failures < free) return 0
  return backOff(failures - free, DELAYS)
}

interface AttemptLane {
  running: number
  waiting: (() => void)[]
}
const lanes = new Map<string, AttemptLane>()

async function slowed<T>(
  { delayMs, lane: name, atOnce }: GuessCounters,
  signal: AbortSignal,
  check: () => Promise<T | undefined>
): Promise<T | undefined> {
  if (delayMs === 0) return check()
  const lane = lanes.get(name) ?? { running: 0, waiting: [] }
  lanes.set(name, lane)
  if (lane.running >= atOnce) {
    if (lane.waiting.length >= WAITING_OF_LANE * atOnce)
      throw new ApiError('RATE_LIMITED', 'Too many failed attempts are waiting: repeat after Retry-After.', {
        headers: { 'Retry-After': String(Math.ceil(delayMs / 1000)) }
      })
    await new Promise<void>(resolve => lane.waiting.push(resolve))
  } else lane.running += 1
  try {
    await sleep(delayMs, undefined, { signal }).catch(() => {
      // Without a cause, which would be logged as a fault: the caller is gone, or this process stops.
      throw new ApiError('UNAVAILABLE')
    })
    return await check()
  } finally {
    // The place goes to the next in the queue, or is free again.
    const next = lane.waiting.shift()
    if (next) next()
    else if (--lane.running === 0) lanes.delete(name)
  }
}

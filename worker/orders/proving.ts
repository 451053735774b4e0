// Proving accounts: an order on an account whose token the broker has not accepted yet waits outside of the account's queue
// until the account was authorised here. No partner has more than a share of what is authorised at a time.

import {
  expireUnproven,
  failUnproven,
  pauseProving,
  queueProven,
  takeUnproven,
  type Unproven
} from '../../db/orders/proving.ts'
import { Shares } from '../../db/platform/shares.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { openSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import type { WorkerServices } from '../services.ts'
import { notifyCallers } from './notify.ts'
import type { Placing } from './placing.ts'

// Accounts being authorised by one worker.
const MAX_UNDER_WAY = 200
// An account whose worker died is taken by another after this; also the pause after trouble that may be over soon.
const LEASE_MS = 3000
const PAUSE_MS = 500
const EXPIRED_AT_ONCE = 1000

export interface Proving {
  /** Takes accounts whose orders wait for a first authorisation, as many as there are places for. */
  take(): Promise<void>
  /** Fails unproven orders whose time is over. */
  expire(): Promise<void>
  drain(): Promise<void>
}

/** `wake` is called when a place became free while accounts may be waiting for one. */
export function openProving(
  services: WorkerServices,
  placing: Pick<Placing, 'claim'>,
  wake: () => void,
  places = MAX_UNDER_WAY
): Proving {
  const { db, log } = services
  const underWay = new Map<string, Promise<void>>()
  const shares = new Shares(places)
  let stopped = false
  /** Whether the last round may have left accounts for want of places. */
  let waiting = false

  async function prove(account: Unproven): Promise<void> {
    const { accountRowId } = account
    try {
      if (!account.proven) await openSession(services, account, { anew: true })
      const { accountId, failed } = await queueProven(db, accountRowId)
      notifyCallers(services, failed)
      if (accountId !== null) await placing.claim([accountId])
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal) return notifyCallers(services, await failUnproven(db, accountRowId, refusal))
      log.info({ err: error, accountRowId }, 'an account could not be opened for its first order')
      await pauseProving(db, accountRowId, PAUSE_MS)
    }
  }

  return {
    async take() {
      const limit = shares.free
      if (stopped || limit <= 0) return
      const { partners: busy, rooms } = shares.taken()
      const room = shares.roomOf(undefined)
      const taken = await takeUnproven(db, { worker: services.worker, limit, room, busy, rooms, leaseMs: LEASE_MS })
      waiting = taken.length >= Math.min(room, ...rooms)
      for (const account of taken) {
        // Longer under way than the lease: it is still ours.
        if (underWay.has(account.accountRowId)) continue
        shares.add(account.partnerId)
        const life = prove(account)
          .catch((error: unknown) => log.warn({ err: error, accountRowId: account.accountRowId }, 'proving an account'))
          .finally(() => {
            underWay.delete(account.accountRowId)
            shares.remove(account.partnerId)
            if (!stopped && waiting) wake()
          })
        underWay.set(account.accountRowId, life)
      }
    },
    async expire() {
      notifyCallers(services, await expireUnproven(db, EXPIRED_AT_ONCE))
    },
    async drain() {
      stopped = true
      await Promise.allSettled(underWay.values())
    }
  }
}

/** The error with which the orders end when the account will not be opened; undefined when the next attempt may succeed. */
function refusalOf(error: unknown): { code: 'BROKER_DISCONNECTED' | 'BROKER_UPSTREAM'; message: string } | undefined {
  if (!(error instanceof BrokerError || error instanceof ApiError)) return undefined
  if (error.code === 'BROKER_DISCONNECTED') return { code: error.code, message: error.message }
  if (!(error instanceof BrokerError)) return undefined
  // The broker would refuse again within the order's time, so the order fails now.
  const final = error.brokerCode === 'RefusedTooOften' || isAppRefused(error.brokerCode)
  return final ? { code: 'BROKER_UPSTREAM', message: error.message } : undefined
}

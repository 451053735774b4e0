// The accounts that a worker serves: which it gives to workers that serve fewer, and which it gives up.
import {
  channelOf,
  evenOut,
  listServedByOthers,
  releaseAccounts,
  releaseIdle
} from '../../db/traders/account-leases.ts'
import { passOn } from '../orders/placing.ts'
import type { Settling } from '../orders/settle.ts'
import { sleep } from '../platform/clock.ts'
import type { WorkerServices } from '../services.ts'

// Few at a time: a worker that has just started takes seconds to open 40 connections at once, while all its orders wait.
const GIVEN_AT_ONCE = 8
const GIVE_AGAIN_MS = 500
// An account without a session for this long is served by no worker any more.
const ACCOUNT_IDLE_MS = 5 * 60_000

type GivingServices = Pick<WorkerServices, 'db' | 'bus' | 'log' | 'worker' | 'clock'> & {
  brokers: Pick<WorkerServices['brokers'], 'accounts' | 'counted' | 'leave'>
}
type GivingSettling = Pick<Settling, 'busyAccounts' | 'leave'>

/** Gives accounts to workers that serve fewer, step by step; gives up those that are not in use, or that others have taken over. */
export async function giveAwayAccounts(services: GivingServices, settling: GivingSettling): Promise<void> {
  while ((await giveSome(services, settling)) > 0) await sleep(services.clock, GIVE_AGAIN_MS)
}

/** Returns how many accounts other workers got. */
async function giveSome({ db, brokers, bus, log, worker }: GivingServices, settling: GivingSettling): Promise<number> {
  const busy = [...settling.busyAccounts()]
  const given = await evenOut(db, { worker, busy, limit: GIVEN_AT_ONCE })
  const inUse = brokers.accounts()
  const idle = await releaseIdle(db, { worker, inUse, idleMs: ACCOUNT_IDLE_MS })
  // This process was frozen, or without the database, for longer than its lease, and others took the accounts over. Until this one
  // gives them up they have two connections, and their new worker allows for what this one may spend of their quotas, even where
  // the connection is closed already.
  const settlingHere = new Set(busy)
  const quiet = [...new Set([...inUse, ...brokers.counted()])].filter(accountId => !settlingHere.has(accountId))
  const lost = await listServedByOthers(db, { worker, accountIds: quiet })
  const left = [...given.map(({ accountId }) => accountId), ...idle, ...lost]
  if (left.length === 0) return 0
  log.info({ given: given.length, idle: idle.length, lost: lost.length }, 'gave accounts away')
  await settling.leave(left)
  await brokers.leave(left)
  // The new worker claims what is queued there at once.
  for (const { accountId, worker: other } of given) bus.publish(channelOf(other), 'claim', accountId)
  return given.length
}

/** Gives up all accounts of a worker that ends; other workers claim at once what waits there. */
export async function giveUpAccounts({ db, bus, log, worker }: WorkerServices): Promise<void> {
  try {
    passOn(bus, await releaseAccounts(db, worker))
  } catch (error) {
    log.warn({ err: error }, 'accounts could not be released')
  }
}

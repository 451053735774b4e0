// What the money tests share: partners with a balance or a trial, payments, and refusals by name.
import * as assert from 'uvu/assert'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { topUp } from '../../db/money/wallets.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Plan } from '../../schemas/partners.ts'

let made = 0

/** A reference that no other movement of this process has. */
export const newReference = () => `test:${++made}`

/** A partner within its trial whose wallet holds this much. */
export async function partnerWith(db: Db, balanceUsd: string): Promise<string> {
  const { partnerId } = await insertPartner(db, { name: 'P', plan: 'PRO', brokerAppId: '1', brokerDialect: 'v3' })
  if (Number(balanceUsd) > 0)
    await transfer(db, {
      reference: newReference(),
      kind: 'topup',
      entries: move(accounts.world, accounts.wallet(partnerId), balanceUsd)
    })
  return partnerId
}

interface BilledOptions {
  plan?: Plan
  trialDays?: number
  balance?: string
}

/** Makers of partners that are billed, and of their payments. */
export function billingMakers(db: Db, prices: Record<Plan, string>) {
  const pay = (partnerId: string, amountUsd: string, reference?: string) =>
    db.transaction(trx => topUp(trx, { partnerId, amountUsd, reference, prices }))

  async function newPartner({ plan = 'PRO', trialDays = 0, balance = '0' }: BilledOptions = {}): Promise<string> {
    const facts = { name: 'P', plan, brokerAppId: '1', brokerDialect: 'v3', trialDays }
    const { partnerId } = await insertPartner(db, facts)
    if (balance !== '0') await pay(partnerId, balance)
    return partnerId
  }

  /** So many of them, one after another: all payments move money of one account, and those at once would wait for each other. */
  async function newPartners(count: number, options?: BilledOptions): Promise<string[]> {
    const made: string[] = []
    while (made.length < count) made.push(await newPartner(options))
    return made
  }
  return { pay, newPartner, newPartners }
}

/** Waits for a failure whose message matches. */
export async function refused(work: Promise<unknown>, pattern: RegExp): Promise<void> {
  try {
    await work
  } catch (error) {
    assert.match((error as Error).message, pattern)
    return
  }
  assert.unreachable(`was not refused with ${pattern}`)
}

/** Waits for a refusal; anything else is thrown on. */
export async function refusalOf(work: Promise<unknown>): Promise<ApiError> {
  try {
    await work
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('was not refused')
}

// A partner's other calls while a part is away: reads, a write, live balances. Each gets a response that keeps the
// contract and a code that shows what to do; nothing is refused for a reason that is not the caller's.
import { setTimeout as sleep } from 'node:timers/promises'
import { getMe } from '../../api/me.ts'
import type { Operation } from '../../api/operation.ts'
import { listOrders } from '../../api/orders/orders.ts'
import { listOpenPositions } from '../../api/orders/positions.ts'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { getUsage } from '../../api/usage.ts'
import { type Random, seeded } from '../money-storm/random.ts'
import { checkResponse } from '../support/harness.ts'
import type { ChaosStack, Trader } from './stack.ts'

const EVERY_MS = 150
const CLIENT_TIMEOUT_MS = 60_000
// The service or its broker cannot respond now: the same call again, later.
const again = new Set([408, 502, 503])

export interface OtherCalls {
  /** Responses by stage, operation, status and code. */
  responses: Record<string, number>
  complaints: string[]
}

interface OtherCall {
  row: Operation
  query?: Record<string, string>
  body?: object
}

const calls: ((trader: Trader) => OtherCall)[] = [
  () => ({ row: getMe }),
  () => ({ row: getUsage }),
  ({ traderExternalId }) => ({ row: listAccounts, query: { traderExternalId } }),
  ({ traderExternalId }) => ({ row: getBalance, query: { traderExternalId } }),
  ({ traderExternalId }) => ({ row: listOrders, query: { traderExternalId, limit: '20' } }),
  ({ traderExternalId }) => ({ row: listOpenPositions, query: { traderExternalId } }),
  () => ({ row: listOpenPositions }),
  ({ traderExternalId, accountId }) => ({
    row: exchangeTokens,
    body: {
      traderExternalId,
      accounts: [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }]
    }
  })
]

/** Calls all along until stopped; then resolves when every call has its response. */
export function startOtherCalls(
  stack: ChaosStack,
  { seed, stage }: { seed: number; stage: () => string }
): { stop(): Promise<OtherCalls> } {
  const outcomes: OtherCalls = { responses: {}, complaints: [] }
  const random = seeded(seed)
  const underWay = new Set<Promise<void>>()
  let stopped = false
  const rounds = (async () => {
    while (!stopped) {
      const called: Promise<void> = callOnce(stack, outcomes, { random, stage: stage() }).finally(() =>
        underWay.delete(called)
      )
      underWay.add(called)
      await sleep(EVERY_MS)
    }
    await Promise.all(underWay)
  })()
  return {
    async stop() {
      stopped = true
      await rounds
      return outcomes
    }
  }
}

async function callOnce(
  stack: ChaosStack,
  outcomes: OtherCalls,
  { random, stage }: { random: Random; stage: string }
): Promise<void> {
  const { row, query, body } = random.pick(calls)(random.pick(stack.traders))
  const { address, name } = random.pick(stack.apis)
  const count = (what: string) => {
    const line = `${stage}: ${row.name} ${what}`
    outcomes.responses[line] = (outcomes.responses[line] ?? 0) + 1
  }
  try {
    const response = await fetch(`${address}${row.path}${query ? `?${new URLSearchParams(query)}` : ''}`, {
      method: row.method,
      headers: { authorization: `Bearer ${stack.key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(CLIENT_TIMEOUT_MS)
    })
    const content = (await response.json()) as Record<string, unknown>
    count([response.status, content.error].filter(Boolean).join(' '))
    checkResponse(row, response, content)
    if (response.status === 503 && !response.headers.has('retry-after'))
      outcomes.complaints.push(`${row.name} returned 503 without Retry-After`)
    if (response.status !== 200 && !again.has(response.status))
      outcomes.complaints.push(`${row.name} was refused ${stage} the outage: ${JSON.stringify(content)}`)
  } catch (error) {
    count('failed')
    outcomes.complaints.push(`${row.name} at ${name}, ${stage} the outage: ${(error as Error).message}`)
  }
}

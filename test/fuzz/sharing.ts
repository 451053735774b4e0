// Requests of three partners about one broker account: two own it, a third one has named it with made-up tokens. Whatever the
// others request, an owner is served in time, the third one reaches nothing, and nobody is shown anything of another.
import fc from 'fast-check'
import type { FuzzKind } from './kinds.ts'
import type { FuzzCase, FuzzScene, Input, Sharing } from './requests.ts'
import { rawRequestOf } from './requests.ts'

const CURRENCY = { accountMode: 'DEMO', currency: 'USD' }
// Far above what an order takes on a busy machine, and below the time after which one is given up.
const IN_TIME_MS = 20_000

const order = { asset: 'R_100', stake: 1 }
type Of = (parts: { party: Sharing['parties'][number]; accountId: string; id: string; pick: number }) => Input
const named: Of = ({ party: { traderExternalId } }) => ({ params: {}, query: { traderExternalId } })
const bodyOf =
  (fields: (parts: Parameters<Of>[0]) => object): Of =>
  parts => ({
    params: {},
    query: {},
    body: { traderExternalId: parts.party.traderExternalId, ...fields(parts) }
  })

/** The operations that concern an account, with good inputs; those that reach the broker refuse a partner that does not own it. */
const concerned: Record<string, { input: Of; reachesBroker?: true }> = {
  exchangeTokens: {
    input: bodyOf(({ party, accountId, pick }) => ({
      accounts: [{ accountId, token: party.owns ? `sim-${accountId}` : `sim-VRTC${1_000_001 + pick}`, ...CURRENCY }]
    }))
  },
  listAccounts: { input: named },
  activateAccount: { input: bodyOf(({ accountId }) => ({ accountId })) },
  listOrders: { input: named },
  getBalance: { input: named, reachesBroker: true },
  placeBinaryOrder: {
    input: bodyOf(({ id, pick }) => ({
      ...order,
      clientOrderId: id,
      contractType: pick % 2 === 0 ? 'CALL' : 'DIGITEVEN',
      duration: 1 + (pick % 3),
      durationUnit: 't',
      waitForSettle: pick % 5 > 0
    })),
    reachesBroker: true
  },
  placeMultiplierOrder: {
    input: bodyOf(({ id }) => ({ ...order, clientOrderId: id, direction: 'up', multiplier: 40 })),
    reachesBroker: true
  }
}

export const sharedAccount: FuzzKind = (operation, { sharing }: FuzzScene) => {
  const row = concerned[operation.name]
  if (!row) return null
  const { accountId, parties } = sharing
  return fc
    .tuple(fc.constantFrom(...parties), fc.noBias(fc.uuid({ version: 4 })), fc.nat(1000))
    .map(([party, id, pick]): FuzzCase => {
      const input = row.input({ party, accountId, id, pick })
      const refused = !party.owns && row.reachesBroker
      return {
        operation,
        kind: 'shared-account',
        raw: rawRequestOf(operation, input, { authorization: `Bearer ${party.key}` }),
        expected: { check: 'shared_account', only: refused ? [404, 502] : [200], withinMs: IN_TIME_MS },
        hidden: parties.filter(other => other !== party).map(({ mark }) => mark)
      }
    })
}

// What the tests of the marketplace begin with: bots, funded wallets, and the books.
import { createCreatorBot, publishBot } from '../api/marketplace-creator.ts'
import type { Db } from '../db/connection.ts'
import { balanceOf } from '../db/ledger.ts'
import { topUp } from '../db/wallets.ts'
import type { CallInput, Harness, TestPartner } from './harness.ts'

export const draft = {
  name: 'Night Range',
  description: 'Sells the edges of quiet ranges.',
  category: 'scalp',
  riskLevel: 'low',
  strategyType: 'mean-reversion',
  code: 'on candle: sell'
} as const

/** A DRAFT of this partner, or of the trader whose session is in the headers. */
export async function makeDraft(partner: TestPartner, facts: object = {}, headers: CallInput['headers'] = {}) {
  const { status, body } = await partner.call(createCreatorBot, { body: { ...draft, ...facts }, headers })
  if (status !== 200) throw new Error(`the draft was refused: ${JSON.stringify(body)}`)
  return body.botId as string
}

/** A PUBLISHED bot. */
export async function makeBot(partner: TestPartner, facts: object = {}, headers: CallInput['headers'] = {}) {
  const botId = await makeDraft(partner, facts, headers)
  const { status, body } = await partner.call(publishBot, { params: { id: botId }, headers })
  if (status !== 200) throw new Error(`publishing was refused: ${JSON.stringify(body)}`)
  return botId
}

/** Pays into the partner's wallet. */
export async function fund({ open }: Harness, { partnerId }: TestPartner, amountUsd: string): Promise<void> {
  await open.db.transaction(trx => topUp(trx, { partnerId, amountUsd, prices: open.config.planPrices }))
}

/** What a partner has: wallet, earnings, held. */
export async function books(db: Db, { partnerId }: TestPartner): Promise<[string, string, string]> {
  return [
    await balanceOf(db, `wallet:${partnerId}`),
    await balanceOf(db, `earnings:${partnerId}`),
    await balanceOf(db, `held:${partnerId}`)
  ]
}

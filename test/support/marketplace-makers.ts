// What the tests of the marketplace begin with: bots, funded wallets, and the books.
import { createCreatorBot, publishBot } from '../../api/marketplace/creator.ts'
import { wordsOf } from '../../db/marketplace/listing.ts'
import { type BotFacts, insertBot, publishBot as publishListing } from '../../db/marketplace/listings.ts'
import { accounts, balanceOf, move, transfer } from '../../db/money/ledger.ts'
import { topUp } from '../../db/money/wallets.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { newId } from '../../schemas/fields/ids.ts'
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

/** Puts a bot on sale without the API, free of charge unless the facts have a price; returns its id. */
export async function putOnSale(
  db: Db,
  creator: { partnerId: string; partyId: string },
  facts: Partial<BotFacts>
): Promise<string> {
  const { id } = await insertBot(db, creator, {
    longDescription: null,
    supportedAssets: [],
    screenshots: [],
    demoVideoUrl: null,
    oneTimePriceUsd: null,
    monthlyPriceUsd: null,
    version: '1.0.0',
    ...draft,
    ...facts
  })
  await db.transaction(trx => publishListing(trx, id, creator))
  return id
}

/** Pays into the partner's wallet. */
export async function fund({ services }: Harness, { partnerId }: TestPartner, amountUsd: string): Promise<void> {
  await services.db.transaction(trx => topUp(trx, { partnerId, amountUsd, prices: services.config.planPrices }))
}

/** Puts earnings on the partner's account, without a bot that earned them. */
export async function earn({ services }: Harness, { partnerId }: TestPartner, amountUsd: string): Promise<void> {
  const entries = move(accounts.world, accounts.earnings(partnerId), amountUsd)
  await transfer(services.db, { reference: `earned:${newId('transfer')}`, kind: 'topup', entries })
}

/** What a partner has: wallet, earnings, held. */
export async function books(db: Db, { partnerId }: TestPartner): Promise<[string, string, string]> {
  return [
    await balanceOf(db, `wallet:${partnerId}`),
    await balanceOf(db, `earnings:${partnerId}`),
    await balanceOf(db, `held:${partnerId}`)
  ]
}

/** Published bots by the thousand, written as publishing writes them, each with these facts over the draft's. */
export async function seedBots(db: Db, { partnerId }: TestPartner, facts: object[]): Promise<void> {
  const bots = facts.map(fact => ({
    id: newId('bot'),
    partner_id: partnerId,
    party_id: partnerId,
    status: 'PUBLISHED',
    name: draft.name,
    description: draft.description,
    category: draft.category as string,
    risk_level: draft.riskLevel as string,
    strategy_type: draft.strategyType,
    supported_assets: ['R_50'],
    screenshots: ['https://cdn.example.com/equity.png'],
    version: '1.0.0',
    code: draft.code,
    published_at: new Date(Date.now() - Math.random() * 700 * 86_400_000),
    ...fact
  }))
  await db.transaction(async trx => {
    await trx.batchInsert('marketplace_bots', bots, 1000)
    const words = bots.map(bot => ({
      bot_id: bot.id,
      category: bot.category,
      risk_level: bot.risk_level,
      words: wordsOf([bot.name, bot.description, bot.category, bot.strategy_type, ...bot.supported_assets].join(' '))
    }))
    await trx.raw(
      `insert into marketplace_words (bot_id, category, risk_level, words)
       select v.bot_id, v.category, v.risk_level, array_to_tsvector(array(select jsonb_array_elements_text(v.words)))
         from jsonb_to_recordset(:values::jsonb) as v (bot_id text, category text, risk_level text, words jsonb)`,
      { values: JSON.stringify(words) }
    )
    // Without a note of what changed: processes that remember read again.
    await trx.raw('update marketplace_listing set version = version + 1')
  })
  // As autovacuum would soon.
  for (const table of ['marketplace_bots', 'marketplace_words']) await db.raw(`vacuum analyze ${table}`)
}

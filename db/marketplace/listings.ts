// The bots of the marketplace: their facts, their states, who may see and use them.
//
// Order of locks in everything about a bot: first the trader who acts, then the partner of a new bot or of new code, then the bot's row, then its purchase,
// subscription or review, then the accounts of the ledger, last the listing's version. One order prevents deadlocks.

import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { BotStatus } from '../../schemas/marketplace/creator.ts'
import { holdParty, type Party } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { type BotRow, botColumns, fromBots } from './bot-rows.ts'
import { listBot, unlistBot } from './listing.ts'

/** What a creator writes about a bot; a price or text that is null is not there. */
export interface BotFacts {
  name: string
  description: string
  longDescription: string | null
  category: string
  riskLevel: string
  strategyType: string
  supportedAssets: readonly string[]
  screenshots: readonly string[]
  demoVideoUrl: string | null
  oneTimePriceUsd: string | null
  monthlyPriceUsd: string | null
  code: string
}

const columnOf: Record<keyof BotFacts, string> = {
  name: 'name',
  description: 'description',
  longDescription: 'long_description',
  category: 'category',
  riskLevel: 'risk_level',
  strategyType: 'strategy_type',
  supportedAssets: 'supported_assets',
  screenshots: 'screenshots',
  demoVideoUrl: 'demo_video_url',
  oneTimePriceUsd: 'one_time_price',
  monthlyPriceUsd: 'monthly_price',
  code: 'code'
}

function toColumns(facts: Partial<BotFacts>): Record<string, unknown> {
  const columns: Record<string, unknown> = {}
  for (const [fact, column] of Object.entries(columnOf)) {
    const value = facts[fact as keyof BotFacts]
    if (value !== undefined) columns[column] = value
  }
  return columns
}

/**
 * A new DRAFT. Its partner is locked, so that the partner's bots can be counted behind it in the same transaction. Throws UNAUTHENTICATED
 * for a trader who may no longer act.
 */
export async function insertBot(
  trx: Db,
  { partnerId, partyId }: Party,
  facts: BotFacts & { version: string }
): Promise<BotRow> {
  await holdParty(trx, { partnerId, partyId })
  await lockCreator(trx, partnerId)
  const id = newId('bot')
  await trx('marketplace_bots').insert({
    id,
    partner_id: partnerId,
    party_id: partyId,
    version: facts.version,
    ...toColumns(facts)
  })
  return (await findBot(trx, id)) as BotRow
}

/** Until `trx` ends no other bot of the partner is made, nor the code of one changed. */
async function lockCreator(trx: Db, partnerId: string): Promise<void> {
  await rows(trx, 'select id from partners where id = :partnerId for no key update', { partnerId })
}

async function findBot(db: Db, botId: string): Promise<BotRow | undefined> {
  const [row] = await rows<BotRow>(db, `select ${botColumns} ${fromBots} where b.id = :botId`, { botId })
  return row
}

function notFound(botId: string): ApiError {
  return new ApiError('NOT_FOUND', `There is no bot ${botId}.`)
}

/** A party with its side: what a test key does meets the bots of test sides alone, what another key does the others. */
export interface MarketParty extends Party {
  test: boolean
}

/** Whether this party sees a bot in the marketplace: of its side, and PUBLISHED or its own. */
function isVisible(bot: BotRow, { partyId, test }: MarketParty): boolean {
  return bot.test === test && (bot.status === 'PUBLISHED' || bot.party_id === partyId)
}

/** The bot, when it is PUBLISHED or the party's own. Throws NOT_FOUND. */
export async function getVisibleBot(db: Db, botId: string, party: MarketParty): Promise<BotRow> {
  return requireVisible(await findBot(db, botId), botId, party)
}

/** The bot that was found, when it is PUBLISHED or the party's own. Throws NOT_FOUND. */
export function requireVisible(bot: BotRow | undefined, botId: string, party: MarketParty): BotRow {
  if (!bot || !isVisible(bot, party)) throw notFound(botId)
  return bot
}

/** As getVisibleBot, and locks the bot until the transaction ends: no sale, review or change of it commits meanwhile. */
export async function lockVisibleBot(trx: Db, botId: string, party: MarketParty): Promise<BotRow> {
  return requireVisible(await lockBot(trx, botId), botId, party)
}

/** The bot, locked until the transaction ends; undefined where there is none. */
export async function lockBot(trx: Db, botId: string): Promise<BotRow | undefined> {
  const [row] = await rows<BotRow>(trx, `select ${botColumns} ${fromBots} where b.id = :botId for no key update of b`, {
    botId
  })
  return row
}

/** Whether the party bought the bot or subscribes to it; PAST_DUE still counts, CANCELED and REFUNDED do not. */
export async function ownsBot(db: Db, botId: string, partyId: string): Promise<boolean> {
  const [row] = await rows<{ owned: boolean }>(
    db,
    `select exists (select from marketplace_purchases
                     where bot_id = :botId and party_id = :partyId and status = 'COMPLETED')
         or exists (select from marketplace_subscriptions
                     where bot_id = :botId and party_id = :partyId and status <> 'CANCELED') as owned`,
    { botId, partyId }
  )
  return row?.owned ?? false
}

/**
 * A bot with what its detail shows: the code only for its creator, buyers and subscribers, to whom it is also
 * there when it is no longer PUBLISHED. Throws NOT_FOUND.
 */
export async function getBotDetail(
  db: Db,
  botId: string,
  party: MarketParty
): Promise<{ bot: BotRow; owned: boolean; code: string | undefined }> {
  const { partyId } = party
  const [bot, owned] = await Promise.all([findBot(db, botId), ownsBot(db, botId, partyId)])
  if (!bot || !(owned || isVisible(bot, party))) throw notFound(botId)
  if (!owned && bot.party_id !== partyId) return { bot, owned, code: undefined }
  const row = (await db('marketplace_bots').where({ id: botId }).first('code')) as { code: string }
  return { bot, owned, code: row.code }
}

/** The party's own bots, newest first, at most `limit`. */
export async function listOwnBots(db: Db, partyId: string, limit: number): Promise<BotRow[]> {
  return rows<BotRow>(
    db,
    `select ${botColumns} ${fromBots} where b.party_id = :partyId order by b.created_at desc, b.id desc limit :limit`,
    { partyId, limit }
  )
}

/** The party's own bot, locked. Throws NOT_FOUND. */
async function lockOwnBot(trx: Db, botId: string, partyId: string): Promise<BotRow> {
  const bot = await lockBot(trx, botId)
  if (bot?.party_id !== partyId) throw notFound(botId)
  return bot
}

// What the list filters by and searches; a new price or new code changes nothing there.
const listed = ['name', 'description', 'category', 'riskLevel', 'strategyType', 'supportedAssets'] as const

/**
 * Changes what the creator wrote, in every state. For new code the partner is locked, so that the bytes of its bots can be counted behind
 * it in the same transaction. Throws NOT_FOUND, or UNAUTHENTICATED for a trader who may no longer act.
 */
export async function updateBot(
  trx: Db,
  botId: string,
  { partnerId, partyId }: Party,
  facts: Partial<BotFacts>
): Promise<BotRow> {
  await holdParty(trx, { partnerId, partyId })
  if (facts.code !== undefined) await lockCreator(trx, partnerId)
  const bot = await lockOwnBot(trx, botId, partyId)
  const columns = toColumns(facts)
  if (Object.keys(columns).length === 0) return bot
  await trx('marketplace_bots')
    .where({ id: botId })
    .update({ ...columns, updated_at: trx.fn.now() })
  const changed = (await findBot(trx, botId)) as BotRow
  if (changed.status === 'PUBLISHED' && listed.some(fact => facts[fact] !== undefined)) await listBot(trx, changed)
  return changed
}

/**
 * DRAFT or RETIRED → PUBLISHED: listed and sold. Throws NOT_FOUND, CONFLICT naming both states, or UNAUTHENTICATED for a trader who may no
 * longer act: an erased one has nothing on sale.
 */
export async function publishBot(trx: Db, botId: string, party: Party): Promise<BotRow> {
  await holdParty(trx, party)
  const bot = await transition(trx, botId, party.partyId, { to: 'PUBLISHED', from: ['DRAFT', 'RETIRED'] })
  await listBot(trx, bot)
  return bot
}

/**
 * PUBLISHED → RETIRED: neither listed nor sold; who bought it keeps it. Subscriptions run to the end of what is paid and
 * end there, also when the bot is published again: to continue, a party subscribes again. Throws NOT_FOUND, or CONFLICT naming both
 * states.
 */
export async function retireBot(trx: Db, botId: string, partyId: string): Promise<BotRow> {
  const bot = await transition(trx, botId, partyId, { to: 'RETIRED', from: ['PUBLISHED'] })
  await rows(
    trx,
    // In the order in which the end of a suspension locks the subscriptions of a partner.
    `update marketplace_subscriptions set cancel_at_period_end = true
      where id = any(array(select id from marketplace_subscriptions where bot_id = :botId and status <> 'CANCELED'
                            order by id for no key update))`,
    { botId }
  )
  await unlistBot(trx, bot)
  return bot
}

async function transition(
  trx: Db,
  botId: string,
  partyId: string,
  { from, to }: { from: BotStatus[]; to: BotStatus }
): Promise<BotRow> {
  const moved = await rows(
    trx,
    `update marketplace_bots
        set status = :to, updated_at = now(), published_at = coalesce(published_at, now())
      where id = :botId and party_id = :partyId and status = any(:from)
      returning id`,
    { botId, partyId, from, to }
  )
  const bot = await findBot(trx, botId)
  if (bot?.party_id !== partyId) throw notFound(botId)
  if (moved.length === 0)
    throw new ApiError('CONFLICT', `The bot is ${bot.status}; only one that is ${from.join(' or ')} becomes ${to}.`)
  return bot
}

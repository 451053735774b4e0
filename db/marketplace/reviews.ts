// Reviews: one per party and bot, the newest replaces the previous one. Sum and count are columns of the bot.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { holdParty } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { getVisibleBot, lockVisibleBot, type MarketParty, ownsBot } from './listings.ts'

export interface ReviewRow {
  id: string
  bot_id: string
  party_id: string
  rating: number
  comment: string | null
  created_at: Date
  /** The name of the public profile; absent without one. */
  author_name: string | null
}

const columns = `r.id, r.bot_id, r.party_id, r.rating, r.comment, r.created_at,
  (select nullif(display_name, '') from community_profiles c where c.party_id = r.party_id and c.is_public) as author_name`

/** A page of a bot's reviews, newest first, and how many there are. Throws NOT_FOUND for a bot not in sight. */
export async function listReviews(
  db: Db,
  { botId, party, page, limit }: { botId: string; party: MarketParty; page: number; limit: number }
): Promise<{ reviews: ReviewRow[]; total: number }> {
  await getVisibleBot(db, botId, party)
  // One statement, so that a page and the number of all are of one snapshot.
  const found = await rows<ReviewRow & { total: number }>(
    db,
    `select b.rating_count as total, page.*
       from marketplace_bots b
       left join (select ${columns} from marketplace_reviews r where r.bot_id = :botId
                   order by r.created_at desc, r.id desc limit :limit offset :offset) page on true
      where b.id = :botId order by page.created_at desc, page.id desc`,
    { botId, limit, offset: (page - 1) * limit }
  )
  const reviews = found.flatMap(({ total: _total, ...row }) => (row.id === null ? [] : [row]))
  return { reviews, total: found[0]?.total ?? 0 }
}

/** Writes the party's review. Throws NOT_FOUND, or CONFLICT for a party that neither bought nor subscribes. */
export async function saveReview(
  trx: Db,
  party: MarketParty,
  { botId, rating, comment }: { botId: string; rating: number; comment: string | null }
): Promise<ReviewRow> {
  const { partnerId, partyId } = party
  await holdParty(trx, party)
  // The lock makes reading the old rating and replacing it one step.
  await lockVisibleBot(trx, botId, party)
  if (!(await ownsBot(trx, botId, partyId)))
    throw new ApiError('CONFLICT', 'A review needs a purchase of the bot or a subscription to it.')
  const before = (await trx('marketplace_reviews').where({ bot_id: botId, party_id: partyId }).first('rating')) as
    | { rating: number }
    | undefined
  const [review] = await rows<ReviewRow>(
    trx,
    `insert into marketplace_reviews as r (id, bot_id, partner_id, party_id, rating, comment)
     values (:id, :botId, :partnerId, :partyId, :rating, :comment)
     on conflict (bot_id, party_id) do update
       set rating = excluded.rating, comment = excluded.comment, created_at = now()
     returning ${columns}`,
    { id: newId('review'), botId, partnerId, partyId, rating, comment }
  )
  await rows(
    trx,
    `update marketplace_bots set rating_sum = rating_sum + :more, rating_count = rating_count + :one where id = :botId`,
    { botId, more: rating - (before?.rating ?? 0), one: before ? 0 : 1 }
  )
  return review as ReviewRow
}

/** Removes the review of a party that does not have the bot any more from the bot's figures. The bot is locked. */
export async function takeReviewBack(trx: Db, botId: string, partyId: string): Promise<void> {
  if (await ownsBot(trx, botId, partyId)) return
  await rows(
    trx,
    `with gone as (delete from marketplace_reviews where bot_id = :botId and party_id = :partyId returning rating)
     update marketplace_bots set rating_sum = rating_sum - gone.rating, rating_count = rating_count - 1
       from gone where id = :botId`,
    { botId, partyId }
  )
}

// Bots that parties of a community share and like.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { holdParty, type Party } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { type Author, authorOf } from './community.ts'

export interface CommunityBotRecord {
  botId: string
  name: string
  description: string | null
  symbol: string | null
  config: object
  author: Author
  likes: number
  liked: boolean
  createdAt: Date
}

const columns = `b.id as "botId", b.name, b.description, b.symbol, b.config, ${authorOf('b')}, b.likes, b.created_at as "createdAt"`

/** Bots of a community; a new one beyond them is refused. */
const MAX_BOTS = 200

/** The community's bots, newest first, and which of them the party likes. */
export async function listCommunityBots(db: Db, { partnerId, partyId }: Party): Promise<CommunityBotRecord[]> {
  return rows<CommunityBotRecord>(
    db,
    `select ${columns},
            exists (select from community_likes l where l.bot_id = b.id and l.party_id = :partyId) as liked
       from community_bots b left join community_profiles p on p.party_id = b.party_id
      where b.partner_id = :partnerId
      order by b.created_at desc, b.id desc limit :limit`,
    { partnerId, partyId, limit: MAX_BOTS }
  )
}

/** Shares a bot. Throws LIMIT_REACHED when the community holds 200 already. */
export async function insertCommunityBot(
  db: Db,
  { partnerId, partyId }: Party,
  bot: { name: string; description: string | null; symbol: string | null; config: object }
): Promise<CommunityBotRecord> {
  return db.transaction(async trx => {
    await holdParty(trx, { partnerId, partyId })
    // Bots of one community are made one after another: lock first, count then.
    await rows(trx, 'select id from partners where id = :partnerId for no key update', { partnerId })
    const [held] = (await trx('community_bots').where({ partner_id: partnerId }).count('* as count')) as {
      count: number
    }[]
    if ((held?.count ?? 0) >= MAX_BOTS)
      throw new ApiError('LIMIT_REACHED', `The community holds ${MAX_BOTS} bots already: delete one first.`, {
        extras: { limit: MAX_BOTS }
      })
    const [row] = await rows<CommunityBotRecord>(
      trx,
      `with made as (
         insert into community_bots (id, partner_id, party_id, name, description, symbol, config)
         values (:id, :partnerId, :partyId, :name, :description, :symbol, :config) returning *
       )
       select ${columns}, false as liked
         from made b left join community_profiles p on p.party_id = b.party_id`,
      { id: newId('communityBot'), partnerId, partyId, ...bot, config: JSON.stringify(bot.config) }
    )
    return row as CommunityBotRecord
  })
}

/** Deletes a bot: one's own, or as the partner anyone's in its community. Throws NOT_FOUND. */
export async function deleteCommunityBot(db: Db, { partnerId, partyId }: Party, botId: string): Promise<void> {
  const deleted = await db('community_bots')
    .where({ id: botId, partner_id: partnerId, ...(partyId === partnerId ? {} : { party_id: partyId }) })
    .delete()
  if (deleted === 0) throw new ApiError('NOT_FOUND', `There is no bot ${botId} of yours.`)
}

/** Likes a bot, or takes the like back. Throws NOT_FOUND. */
export async function toggleLike(db: Db, party: Party, botId: string): Promise<{ liked: boolean; likes: number }> {
  const { partnerId, partyId } = party
  return db.transaction(async trx => {
    await holdParty(trx, party)
    // Toggles of one bot go one after another; each then sees what the one before it left.
    const [bot] = await rows(
      trx,
      'select id from community_bots where id = :botId and partner_id = :partnerId for no key update',
      { botId, partnerId }
    )
    if (!bot) throw new ApiError('NOT_FOUND', `There is no bot ${botId}.`)
    const like = { bot_id: botId, party_id: partyId }
    const liked = (await trx('community_likes').where(like).delete()) === 0
    if (liked) await trx('community_likes').insert(like)
    const [row] = (await trx('community_bots')
      .where({ id: botId })
      .increment('likes', liked ? 1 : -1)
      .returning('likes')) as { likes: number }[]
    return { liked, likes: (row as { likes: number }).likes }
  })
}

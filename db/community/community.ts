// Profiles and messages of a partner's community. A party is a trader or the partner itself, named by its id.

import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { holdParty, type Party } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'

export interface ProfileRecord {
  displayName: string | null
  bio: string | null
  avatarUrl: string | null
  isPublic: boolean
  updatedAt: Date | null
}

const profileColumns = [
  'display_name as displayName',
  'bio',
  'avatar_url as avatarUrl',
  'is_public as isPublic',
  'updated_at as updatedAt'
]

/** The profile of a party; an empty, private one before its first change. */
export async function getProfile(db: Db, { partnerId, partyId }: Party): Promise<ProfileRecord> {
  const row = (await db('community_profiles')
    .where({ partner_id: partnerId, party_id: partyId })
    .first(profileColumns)) as ProfileRecord | undefined
  return row ?? { displayName: null, bio: null, avatarUrl: null, isPublic: false, updatedAt: null }
}

/** Changes the given fields of a party's profile and leaves the rest. */
export async function updateProfile(
  db: Db,
  party: Party,
  change: { displayName?: string; bio?: string; avatarUrl?: string | null; isPublic?: boolean }
): Promise<ProfileRecord> {
  const changed = {
    ...(change.displayName === undefined ? {} : { display_name: change.displayName }),
    ...(change.bio === undefined ? {} : { bio: change.bio }),
    ...(change.avatarUrl === undefined ? {} : { avatar_url: change.avatarUrl }),
    ...(change.isPublic === undefined ? {} : { is_public: change.isPublic }),
    updated_at: db.fn.now()
  }
  return db.transaction(async trx => {
    await holdParty(trx, party)
    const [row] = (await trx('community_profiles')
      .insert({ party_id: party.partyId, partner_id: party.partnerId, ...changed })
      .onConflict('party_id')
      .merge(changed)
      .returning(profileColumns)) as ProfileRecord[]
    return row as ProfileRecord
  })
}

/** The author's name, from its profile. */
export interface Author {
  partyId: string
  displayName: string | null
  avatarUrl: string | null
}

/** The author of a row `made`, with its profile `p`, as SQL. */
export const authorOf = (made: string) =>
  `jsonb_build_object('partyId', ${made}.party_id, 'displayName', p.display_name, 'avatarUrl', p.avatar_url) as author`

export interface MessageRecord {
  messageId: string
  author: Author
  content: string
  createdAt: Date
}

const messageColumns = `m.id as "messageId", ${authorOf('m')}, m.content, m.created_at as "createdAt"`

/** Messages of a community that are shown, and those that are kept should some of them be deleted. */
const SHOWN = 100
const KEPT = 1000

/** The newest 100 messages of a partner's community, newest first. */
export async function listMessages(db: Db, partnerId: string): Promise<MessageRecord[]> {
  return rows<MessageRecord>(
    db,
    `select ${messageColumns}
       from community_messages m left join community_profiles p on p.party_id = m.party_id
      where m.partner_id = :partnerId
      order by m.created_at desc, m.id desc limit :limit`,
    { partnerId, limit: SHOWN }
  )
}

/** Writes a message; what falls out of the newest 1000 with it is deleted. */
export async function insertMessage(db: Db, party: Party, content: string): Promise<MessageRecord> {
  return db.transaction(async trx => {
    await holdParty(trx, party)
    const [row] = await rows<MessageRecord>(
      trx,
      `with old as (
         delete from community_messages where id in
           (select id from community_messages where partner_id = :partnerId
             order by created_at desc, id desc offset :kept limit 50 for update skip locked)
       ), made as (
         insert into community_messages (id, partner_id, party_id, content) values (:id, :partnerId, :partyId, :content)
         returning id, party_id, content, created_at
       )
       select ${messageColumns}
         from made m left join community_profiles p on p.party_id = m.party_id`,
      { id: newId('message'), partnerId: party.partnerId, partyId: party.partyId, content, kept: KEPT - 1 }
    )
    return row as MessageRecord
  })
}

/** Deletes a message: one's own, or as the partner anyone's in its community. Throws NOT_FOUND. */
export async function deleteMessage(db: Db, { partnerId, partyId }: Party, messageId: string): Promise<void> {
  const deleted = await db('community_messages')
    .where({ id: messageId, partner_id: partnerId, ...(partyId === partnerId ? {} : { party_id: partyId }) })
    .delete()
  if (deleted === 0) throw new ApiError('NOT_FOUND', `There is no message ${messageId} of yours.`)
}

// Profiles and messages of a partner's community. A party is a trader or the partner itself, named by its id.

import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { Party } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'

export interface ProfileRecord {
  displayName: string | null
  bio: string | null
  avatarUrl: string | null
  isPublic: boolean
  updatedAt: Date | null
}

interface ProfileRow {
  display_name: string | null
  bio: string | null
  avatar_url: string | null
  is_public: boolean
  updated_at: Date
}

function toProfile(row: ProfileRow): ProfileRecord {
  return {
    displayName: row.display_name,
    bio: row.bio,
    avatarUrl: row.avatar_url,
    isPublic: row.is_public,
    updatedAt: row.updated_at
  }
}

const profileColumns = ['display_name', 'bio', 'avatar_url', 'is_public', 'updated_at']

/** The profile of a party; an empty, private one before its first change. */
export async function getProfile(db: Db, { partnerId, partyId }: Party): Promise<ProfileRecord> {
  const row = (await db('community_profiles')
    .where({ partner_id: partnerId, party_id: partyId })
    .first(profileColumns)) as ProfileRow | undefined
  return row ? toProfile(row) : { displayName: null, bio: null, avatarUrl: null, isPublic: false, updatedAt: null }
}

/** Changes the given fields of a party's profile and leaves the rest. */
export async function updateProfile(
  db: Db,
  { partnerId, partyId }: Party,
  change: { displayName?: string; bio?: string; avatarUrl?: string | null; isPublic?: boolean }
): Promise<ProfileRecord> {
  const changed = {
    ...(change.displayName === undefined ? {} : { display_name: change.displayName }),
    ...(change.bio === undefined ? {} : { bio: change.bio }),
    ...(change.avatarUrl === undefined ? {} : { avatar_url: change.avatarUrl }),
    ...(change.isPublic === undefined ? {} : { is_public: change.isPublic }),
    updated_at: db.fn.now()
  }
  const [row] = (await db('community_profiles')
    .insert({ party_id: partyId, partner_id: partnerId, ...changed })
    .onConflict('party_id')
    .merge(changed)
    .returning(profileColumns)) as ProfileRow[]
  return toProfile(row as ProfileRow)
}

/** The author's name, from its profile. */
export interface Author {
  partyId: string
  displayName: string | null
  avatarUrl: string | null
}

export interface MessageRecord {
  messageId: string
  author: Author
  content: string
  createdAt: Date
}

interface MessageRow {
  id: string
  party_id: string
  content: string
  created_at: Date
  display_name: string | null
  avatar_url: string | null
}

function toMessage(row: MessageRow): MessageRecord {
  return {
    messageId: row.id,
    author: { partyId: row.party_id, displayName: row.display_name, avatarUrl: row.avatar_url },
    content: row.content,
    createdAt: row.created_at
  }
}

/** Messages of a community that are shown, and those that are kept should some of them be deleted. */
const SHOWN = 100
const KEPT = 1000

/** The newest 100 messages of a partner's community, newest first. */
export async function listMessages(db: Db, partnerId: string): Promise<MessageRecord[]> {
  const found = await rows<MessageRow>(
    db,
    `select m.id, m.party_id, m.content, m.created_at, p.display_name, p.avatar_url
       from community_messages m left join community_profiles p on p.party_id = m.party_id
      where m.partner_id = :partnerId
      order by m.created_at desc, m.id desc limit :limit`,
    { partnerId, limit: SHOWN }
  )
  return found.map(toMessage)
}

/** Writes a message; what falls out of the newest 1000 with it is deleted. */
export async function insertMessage(db: Db, { partnerId, partyId }: Party, content: string): Promise<MessageRecord> {
  const [row] = await rows<MessageRow>(
    db,
    `with old as (
       delete from community_messages where id in
         (select id from community_messages where partner_id = :partnerId
           order by created_at desc, id desc offset :kept limit 50 for update skip locked)
     ), made as (
       insert into community_messages (id, partner_id, party_id, content) values (:id, :partnerId, :partyId, :content)
       returning id, party_id, content, created_at
     )
     select m.*, p.display_name, p.avatar_url
       from made m left join community_profiles p on p.party_id = m.party_id`,
    { id: newId('message'), partnerId, partyId, content, kept: KEPT }
  )
  return toMessage(row as MessageRow)
}

/** Deletes a message: one's own, or as the partner anyone's in its community. Throws NOT_FOUND. */
export async function deleteMessage(db: Db, { partnerId, partyId }: Party, messageId: string): Promise<void> {
  const deleted = await db('community_messages')
    .where({ id: messageId, partner_id: partnerId, ...(partyId === partnerId ? {} : { party_id: partyId }) })
    .delete()
  if (deleted === 0) throw new ApiError('NOT_FOUND', `There is no message ${messageId} of yours.`)
}

// What a process remembers of the marketplace's list, per filter: how many bots are found, and where pages far back begin.
//
// Every transaction that changes the list makes a new version of it, one after the other, and writes down what that
// version changed. What was read at one version is carried forward by the changes since, so it is as exact as if it had
// been read now; where some of them are not kept it is read again. So is what was read on another history of the
// database: after a failover or a restore to an earlier point its versions have the same numbers and other changes.
import { type Db, rows } from '../postgres/connection.ts'
import type { BotRow } from './bot-rows.ts'

/** Which bots: conditions on columns that bots, their words and changes share, and words as a tsquery. */
export interface Filter {
  where: string[]
  bindings: { category?: string; riskLevel?: string; words?: string }
}

/** Where a page may begin: at the newest bot that is not newer than this one. */
interface Bookmark {
  id: string
  publishedAt: Date
  /** How many of the found bots are newer. */
  place: number
}

interface Remembered<Value> {
  version: number
  /** The generation of the database's history. */
  generation: number
  value: Value
}

const listVersion = `(select version from marketplace_listing) as version, (select max(generation) from database_lineage) as generation`

// One map of each for every process and database; what a standby serves, it serves in a transaction for each read.
const totals = new WeakMap<object, Map<string, Remembered<number>>>()
const bookmarks = new WeakMap<object, Map<string, Remembered<Bookmark[]>>>()
const MAX_REMEMBERED = 1000
// Versions whose changes are kept.
const KEPT = 1000

/** How many published bots there are by the filter, and at which version of the list; remembered with `memory`. */
export function countBots(db: Db, filter: Filter, memory: object): Promise<Remembered<number>> {
  return recall(db, rememberedOf(totals, memory), filter, {
    async read() {
      const found =
        filter.bindings.words === undefined
          ? `marketplace_bots where ${[`status = 'PUBLISHED'`, ...filter.where].join(' and ')}`
          : `marketplace_words where ${conditionsOf(filter)}`
      const [counted] = await rows<Remembered<number>>(
        db,
        `select ${listVersion}, (select count(*) from ${found}) as value`,
        given(filter)
      )
      return counted as Remembered<number>
    },
    carry: (total, changes) => changes.reduce((sum, { sign }) => sum + sign, total)
  })
}

/** Bookmarks, at every `every`th place, among the bots found by words, newest first; made at the first call. */
export function bookmarksOf(
  db: Db,
  filter: Filter,
  { every, memory }: { every: number; memory: object }
): Promise<Remembered<Bookmark[]>> {
  return recall(db, rememberedOf(bookmarks, memory), filter, {
    async read() {
      const found = await rows<{ version: number; generation: number; id: string; published_at: Date; place: number }>(
        db,
        `select ${listVersion}, id, published_at, place
           from (select b.id, b.published_at, row_number() over (order by b.published_at desc, b.id desc) - 1 as place
                   from marketplace_bots b
                  where b.status = 'PUBLISHED'
                    and (b.id in (select unnest(array(select bot_id from marketplace_words where ${conditionsOf(filter)})))) is true) f
          where place % :every = 0 order by place`,
        { ...given(filter), every }
      )
      const value = found.map(({ id, published_at: publishedAt, place }) => ({ id, publishedAt, place }))
      return { version: found[0]?.version ?? 0, generation: found[0]?.generation ?? 0, value }
    },
    carry: (known, changes) =>
      known.map(mark => ({
        ...mark,
        place: changes.reduce((place, change) => (isNewer(change, mark) ? place + change.sign : place), mark.place)
      }))
  })
}

/** The conditions of a filter, on the words of bots or on changes. */
function conditionsOf({ where, bindings }: Filter): string {
  return [...where, ...(bindings.words === undefined ? [] : ['words @@ :words::tsquery'])].join(' and ') || 'true'
}

/** The bindings there are. */
export function given({ bindings }: Filter): Record<string, unknown> {
  return Object.fromEntries(Object.entries(bindings).filter(([, value]) => value !== undefined))
}

interface Change {
  sign: 1 | -1
  id: string
  publishedAt: Date
}

function isNewer(change: Change, mark: Bookmark): boolean {
  const [one, other] = [change.publishedAt.getTime(), mark.publishedAt.getTime()]
  return one > other || (one === other && change.id > mark.id)
}

async function recall<Value>(
  db: Db,
  remembered: Map<string, Remembered<Value>>,
  filter: Filter,
  { read, carry }: { read(): Promise<Remembered<Value>>; carry(known: Value, changes: Change[]): Value }
): Promise<Remembered<Value>> {
  const key = JSON.stringify([filter.where, filter.bindings.category, filter.bindings.riskLevel, filter.bindings.words])
  const known = remembered.get(key)
  const since = known && (await changesSince(db, filter, known))
  const now =
    since && known ? { ...known, version: since.version, value: carry(known.value, since.changes) } : await read()
  if (!known && remembered.size >= MAX_REMEMBERED) remembered.clear()
  remembered.set(key, now)
  return now
}

function rememberedOf<Value>(
  all: WeakMap<object, Map<string, Remembered<Value>>>,
  memory: object
): Map<string, Remembered<Value>> {
  const remembered = all.get(memory) ?? new Map<string, Remembered<Value>>()
  all.set(memory, remembered)
  return remembered
}

/**
 * What was added to and removed from the filter's result since a version; undefined where changes are missing or the history is
 * another.
 */
async function changesSince(
  db: Db,
  filter: Filter,
  { version: known, generation }: Pick<Remembered<unknown>, 'version' | 'generation'>
): Promise<{ version: number; changes: Change[] } | undefined> {
  type Since = {
    version: number
    generation: number
    kept: number
    changes: { sign: 1 | -1; id: string; at: number }[]
  }
  const [since] = await rows<Since>(
    db,
    `select ${listVersion},
            (select count(distinct version) from marketplace_changes where version > :known) as kept,
            (select coalesce(json_agg(json_build_object('sign', sign, 'id', bot_id, 'at', extract(epoch from published_at) * 1000)), '[]')
               from marketplace_changes where version > :known and ${conditionsOf(filter)}) as changes`,
    { ...given(filter), known }
  )
  if (since?.generation !== generation || since.kept !== since.version - known) return undefined
  const changes = since.changes.map(({ at, ...change }) => ({ ...change, publishedAt: new Date(Math.round(at)) }))
  return { version: since.version, changes }
}

/** Lists a bot with its words, or takes it off the list where there are none: a new version. The caller holds the bot's row. */
export async function relist(trx: Db, bot: BotRow, words: string[] | null): Promise<void> {
  await rows(
    trx,
    `with before as materialized (
       select category, risk_level, test, words from marketplace_words where bot_id = :id
     ), after as materialized (
       select :category::text as category, :riskLevel::text as risk_level, :test::boolean as test, array_to_tsvector(:words::text[]) as words
        where :words::text[] is not null
     ), listed as (
       insert into marketplace_words (bot_id, category, risk_level, test, words) select :id, a.* from after a
       on conflict (bot_id) do update
         set category = excluded.category, risk_level = excluded.risk_level, test = excluded.test, words = excluded.words
     ), unlisted as (
       delete from marketplace_words where bot_id = :id and :words::text[] is null
     ), made as (
       update marketplace_listing set version = version + 1 returning version
     ), recorded as (
       insert into marketplace_changes (version, sign, bot_id, published_at, category, risk_level, test, words)
       select made.version, c.sign, :id, :publishedAt::timestamptz, c.category, c.risk_level, c.test, c.words
         from made cross join (select -1 as sign, * from before union all select 1, * from after) c
     )
     delete from marketplace_changes where version <= (select version from made) - ${KEPT}`,
    {
      id: bot.id,
      category: bot.category,
      riskLevel: bot.risk_level,
      test: bot.test,
      publishedAt: bot.published_at,
      words
    }
  )
}

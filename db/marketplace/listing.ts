// What is listed in the marketplace: pages of published bots by filter, words and order, with exact totals.
//
// Totals and the places where pages far back begin are remembered (remembered.ts). Pages come from an index
// per order that carries the filters; the wide rows are read for the page's bots only.
import type { BotsQuery } from '../../schemas/marketplace/marketplace.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { type BotRow, type ListedBot, listedColumns, withCreators } from './bot-rows.ts'
import { bookmarksOf, countBots, type Filter, given, relist } from './remembered.ts'

const order: Record<BotsQuery['sort'], string> = {
  newest: 'b.published_at desc, b.id desc',
  'top-rated': 'b.rating desc, b.rating_count desc, b.id desc',
  'top-downloads': 'b.downloads desc, b.id desc'
}

// Each way to find a page by words is written out for PostgreSQL, as its estimate of how many rows match the beginning
// of a word is poor. Measured at 100 000 bots: up to FEW, look up the matches and sort them (a few ms); a page near the
// front, walk the order and check each bot's words (1 ms); a page far back of many, walk it with all matches in a hash
// (60 ms, against 150 to 400 by lookups or a sort). The order by age changes only with a new version, so there such a
// walk leaves bookmarks, and the next page far back begins at one of them (2 ms).
const FEW = 2000
const NEAR = 4000
const byKey = `b.id = any(array(select bot_id from marketplace_words where words @@ :words::tsquery))`
const byLookup = `(select w.words @@ :words::tsquery from marketplace_words w where w.bot_id = b.id)`
// Out of an array: however many it holds, the plan is a hash.
const byHash = `(b.id in (select unnest(array(select bot_id from marketplace_words where words @@ :words::tsquery)))) is true`

// Each word of one letter is a walk through a part of the index.
const MAX_WORDS = 10

interface BotsPage {
  bots: ListedBot[]
  total: number
}

/**
 * A page of the published bots of one side, and how many there are on all pages, both of one version of the list. What is remembered of the
 * list is kept with `memory`, an object that lives as long as the process has the database open.
 */
export async function listBots(
  db: Db,
  query: BotsQuery,
  { test, memory }: { test: boolean; memory: object }
): Promise<BotsPage> {
  const filter = filterOf(query, test)
  if (!filter) return { bots: [], total: 0 }
  const { versions, ...found } = await readPage(db, query, { filter, test, memory })
  // Where the list changed between two statements: once more, by one. A standby reads in a transaction that has no snapshot of its own.
  return new Set(versions).size === 1 ? found : readAtOnce(db, query, filter)
}

// Written out, so that the index of the few of test sides serves them.
const ofSide = (test: boolean): string => `test = ${test}`

/** Which bots are wanted; undefined where none can be: the search has neither letter nor digit. */
function filterOf({ category, riskLevel, search }: BotsQuery, test: boolean): Filter | undefined {
  const words = search?.trim() ? wordsOf(search).slice(0, MAX_WORDS) : undefined
  if (words?.length === 0) return undefined
  return {
    where: [
      ofSide(test),
      ...(category === undefined ? [] : ['category = :category']),
      ...(riskLevel === undefined ? [] : ['risk_level = :riskLevel'])
    ],
    bindings: { category, riskLevel, words: words?.map(word => `'${word}':*`).join(' & ') }
  }
}

const published = ({ where }: Filter): string[] => [
  "b.status = 'PUBLISHED'",
  ...where.map(condition => `b.${condition}`)
]

/** With the versions of the list that its statements read. */
async function readPage(
  db: Db,
  { page, limit, sort }: BotsQuery,
  { filter, test, memory }: { filter: Filter; test: boolean; memory: object }
): Promise<BotsPage & { versions: number[] }> {
  const { value: total, version } = await countBots(db, filter, memory)
  const versions = [version]
  const offset = (page - 1) * limit
  if (offset >= total) return { bots: [], total, versions }
  const conditions = published(filter)
  const bindings: Record<string, unknown> = { ...given(filter), limit, offset }
  if (filter.bindings.words !== undefined) {
    // How many bots are met in the order until the page is full.
    const { value: all } = await countBots(db, { where: [ofSide(test)], bindings: {} }, memory)
    const met = ((offset + limit) * all) / total
    const far = total > FEW && met > NEAR
    if (far && sort === 'newest') {
      const bookmarks = await bookmarksOf(db, filter, { every: Math.ceil((NEAR * total) / all / 2), memory })
      const mark = bookmarks.value.findLast(({ place }) => place <= offset)
      // Without one, so much was published since that even this page is before the first.
      if (mark) {
        versions.push(bookmarks.version)
        conditions.push('(b.published_at, b.id) <= (:from::timestamptz, :id)')
        Object.assign(bindings, { from: mark.publishedAt, id: mark.id, offset: offset - mark.place })
      }
      conditions.push(mark ? byLookup : byHash)
    } else conditions.push(far ? byHash : total <= FEW ? byKey : byLookup)
  }
  const by = order[sort]
  const found = await rows<ListedBot & { listVersion: number }>(
    db,
    `select (select version from marketplace_listing) as "listVersion", ${listedColumns}
       from (select b.id from marketplace_bots b
              where ${conditions.join(' and ')} order by ${by} limit :limit offset :offset) as listed
       join marketplace_bots b on b.id = listed.id
       ${withCreators}
      order by ${by}`,
    bindings
  )
  // Where bots were counted and none is found the list is another one by now.
  versions.push(found[0]?.listVersion ?? Number.NaN)
  return { bots: found.map(({ listVersion: _listVersion, ...bot }) => bot), total, versions }
}

/** The same by one statement, which counts all bots of the filter as well. */
async function readAtOnce(db: Db, { page, limit, sort }: BotsQuery, filter: Filter): Promise<BotsPage> {
  const by = order[sort]
  const where = [...published(filter), ...(filter.bindings.words === undefined ? [] : [byHash])].join(' and ')
  const found = await rows<ListedBot & { total: number; place: number }>(
    db,
    `select counted.total, page.*
       from (select count(*) as total from marketplace_bots b where ${where}) counted
       left join (select ${listedColumns}, row_number() over (order by ${by}) as place
                    from (select b.id from marketplace_bots b where ${where} order by ${by} limit :limit offset :offset) as listed
                    join marketplace_bots b on b.id = listed.id
                    ${withCreators}) page on true
      order by page.place`,
    { ...given(filter), limit, offset: (page - 1) * limit }
  )
  const bots = found.flatMap(({ total: _total, place: _place, ...bot }) => (bot.id === null ? [] : [bot]))
  return { bots, total: found[0]?.total ?? 0 }
}

/**
 * The words of a text as they are compared: letters and digits of any language, without the accents of Latin, Greek and Cyrillic letters,
 * case and width folded. Marks of other scripts make another word, and stay.
 */
export function wordsOf(text: string): string[] {
  const folded = text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    // Upper case has one form of ß and ss, of ı and i; the small sigma has two, by its place in the word.
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .replaceAll('ς', 'σ')
    .normalize('NFC')
  return [...new Set((folded.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []).map(word => word.slice(0, 64)))]
}

/** Lists a bot under its present facts. The caller holds the bot's row. */
export async function listBot(trx: Db, bot: BotRow): Promise<void> {
  const text = [bot.name, bot.description, bot.category, bot.strategy_type, ...bot.supported_assets].join('\n')
  await relist(trx, bot, wordsOf(text))
}

/** Takes a bot off the list. The caller holds the bot's row. */
export async function unlistBot(trx: Db, bot: BotRow): Promise<void> {
  await relist(trx, bot, null)
}

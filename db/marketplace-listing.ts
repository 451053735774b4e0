// What is listed in the marketplace: pages of published bots by filter, words and order, with exact totals.
//
// A total is counted once per version of the listing and remembered: the version is part of every transaction
// that changes what is listed, and is read in the same statement as the count. Pages come from an index per
// order that carries the filters; the wide rows are read for the page's bots only.
import type { BotsQuery } from '../schemas/marketplace.ts'
import { type Db, rows } from './connection.ts'
import { type BotRow, type ListedBot, listedColumns, withCreators } from './marketplace.ts'

const order: Record<BotsQuery['sort'], string> = {
  newest: 'b.published_at desc, b.id desc',
  'top-rated': 'b.rating desc, b.rating_count desc, b.id desc',
  'top-downloads': 'b.downloads desc, b.id desc'
}

// Each way to find a page by words is told to PostgreSQL in full, since it knows little about how many rows a
// beginning of a word finds. Measured at 100 000 bots: up to FEW, look the found ones up and sort them (a few
// ms); a page near the front, walk the order and look at each bot's words (1 ms); a page far back of many, walk
// it with all that were found in a hash (60 ms, against 150 to 400 by lookups or a sort).
const FEW = 2000
const NEAR = 4000
const byKey = `b.id = any(array(select bot_id from marketplace_words where words @@ :words::tsquery))`
const byLookup = `(select w.words @@ :words::tsquery from marketplace_words w where w.bot_id = b.id)`
// Out of an array: however many it holds, the plan is a hash.
const byHash = `(b.id in (select unnest(array(select bot_id from marketplace_words where words @@ :words::tsquery)))) is true`

// Each word of one letter is a walk through a part of the index.
const MAX_WORDS = 10

/** A page of the published bots, and how many there are on all pages. */
export async function listBots(db: Db, query: BotsQuery): Promise<{ bots: ListedBot[]; total: number }> {
  const { page, limit, category, riskLevel } = query
  const words = query.search?.trim() ? wordsOf(query.search).slice(0, MAX_WORDS) : undefined
  // Words were asked for, and none is in what was given: punctuation matches nothing.
  if (words?.length === 0) return { bots: [], total: 0 }
  const filter: Filter = {
    where: [
      ...(category === undefined ? [] : ['category = :category']),
      ...(riskLevel === undefined ? [] : ['risk_level = :riskLevel'])
    ],
    bindings: { category, riskLevel, words: words?.map(word => `'${word}':*`).join(' & ') }
  }
  const total = await countBots(db, filter)
  const offset = (page - 1) * limit
  if (offset >= total) return { bots: [], total }
  const conditions = ["b.status = 'PUBLISHED'", ...filter.where.map(condition => `b.${condition}`)]
  if (words) {
    // How many bots are met in the order until the page is full.
    const met = ((offset + limit) * (await countBots(db, { where: [], bindings: {} }))) / total
    conditions.push(total <= FEW ? byKey : met <= NEAR ? byLookup : byHash)
  }
  const by = order[query.sort]
  const bots = await rows<ListedBot>(
    db,
    `select ${listedColumns}
       from (select b.id from marketplace_bots b
              where ${conditions.join(' and ')} order by ${by} limit :limit offset :offset) as listed
       join marketplace_bots b on b.id = listed.id
       ${withCreators}
      order by ${by}`,
    { ...defined(filter.bindings), limit, offset }
  )
  return { bots, total }
}

interface Filter {
  where: string[]
  bindings: { category?: string; riskLevel?: string; words?: string }
}

// Totals of one version, per filter; a new version starts afresh. One map per pool, that is per process.
interface Totals {
  version: number
  byFilter: Map<string, number>
}
const remembered = new WeakMap<Db, Totals>()
const MAX_TOTALS = 1000

async function countBots(db: Db, { where, bindings }: Filter): Promise<number> {
  const key = JSON.stringify([bindings.category, bindings.riskLevel, bindings.words])
  const known = remembered.get(db)
  const total = known?.byFilter.get(key)
  if (known && total !== undefined) {
    const [listing] = await rows<{ version: number }>(db, 'select version from marketplace_listing')
    if (listing?.version === known.version) return total
  }
  const conditions = bindings.words === undefined ? ["status = 'PUBLISHED'"] : ['words @@ :words::tsquery']
  const table = bindings.words === undefined ? 'marketplace_bots' : 'marketplace_words'
  const [counted] = (await rows<{ version: number; total: number }>(
    db,
    `select (select version from marketplace_listing) as version,
            (select count(*) from ${table} where ${[...conditions, ...where].join(' and ')}) as total`,
    defined(bindings)
  )) as [{ version: number; total: number }]
  remember(db, key, counted)
  return counted.total
}

function remember(db: Db, key: string, { version, total }: { version: number; total: number }): void {
  let totals = remembered.get(db)
  if (totals && version < totals.version) return
  if (!totals || totals.version < version || totals.byFilter.size >= MAX_TOTALS) {
    totals = { version, byFilter: new Map() }
    remembered.set(db, totals)
  }
  totals.byFilter.set(key, total)
}

function defined(bindings: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(bindings).filter(([, value]) => value !== undefined))
}

/** The words of a text as they are compared: letters and digits of any language, case and width folded. */
export function wordsOf(text: string): string[] {
  const words = text
    .normalize('NFKC')
    .toLowerCase()
    .match(/[\p{L}\p{M}\p{N}]+/gu)
  return [...new Set((words ?? []).map(word => word.slice(0, 64)))]
}

/** Lists a bot under its present facts. The caller holds the bot's row. */
export async function listBot(trx: Db, bot: BotRow): Promise<void> {
  const text = [bot.name, bot.description, bot.category, bot.strategy_type, ...bot.supported_assets].join('\n')
  await rows(
    trx,
    `insert into marketplace_words (bot_id, category, risk_level, words)
     values (:id, :category, :riskLevel, array_to_tsvector(:words::text[]))
     on conflict (bot_id) do update
       set category = excluded.category, risk_level = excluded.risk_level, words = excluded.words`,
    { id: bot.id, category: bot.category, riskLevel: bot.risk_level, words: wordsOf(text) }
  )
  await bumpVersion(trx)
}

/** Takes a bot off the list. The caller holds the bot's row. */
export async function unlistBot(trx: Db, botId: string): Promise<void> {
  await trx('marketplace_words').where({ bot_id: botId }).delete()
  await bumpVersion(trx)
}

async function bumpVersion(trx: Db): Promise<void> {
  await rows(trx, 'update marketplace_listing set version = version + 1')
}

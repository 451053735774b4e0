// The list of the marketplace: filters, words, orders, pages and totals.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { publishBot, retireBot, updateCreatorBot } from '../../api/marketplace/creator.ts'
import { listMarketplaceBots, reviewBot } from '../../api/marketplace/listings.ts'
import { purchaseBot } from '../../api/marketplace/sales.ts'
import { listBots } from '../../db/marketplace/listing.ts'
import { publishBot as publishListing, retireBot as retireListing } from '../../db/marketplace/listings.ts'
import { up as foldWords } from '../../db/migrations/0149_folded_words.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { noteLineage, readClock } from '../../db/postgres/lineage.ts'
import { call, closeAll, openHarness } from '../support/harness.ts'
import { draft, makeBot, makeDraft, putOnSale, seedBots } from '../support/marketplace-makers.ts'
import { readBeside } from '../support/read-beside.ts'

const harness = await openHarness()
// A second process over the same database: what it remembers must not go stale.
const other = await openHarness({ url: harness.url })
const { db } = harness.services
const creator = await harness.makePartner({ name: 'Acme' })
const of = (id: string) => ({ params: { id } })

interface ListingPage {
  data: { botId: string; name: string; rating: number | null; downloads: number }[]
  page: number
  limit: number
  total: number
}
const list = async (query: Record<string, string | number> = {}): Promise<ListingPage> => {
  const response = await creator.call(listMarketplaceBots, { query })
  if (response.status !== 200) throw new Error(JSON.stringify(response.body))
  return response.body
}
const names = ({ data }: ListingPage) => data.map(({ name }) => name)

const listing = suite('GET /v1/marketplace/bots')

listing('refuses pages, limits and orders out of bounds', async () => {
  const wrong: Record<string, string | number>[] = [
    { page: 0 },
    { page: -1 },
    { page: 1.5 },
    { limit: 0 },
    { limit: 101 },
    { sort: 'cheapest' },
    { search: 'x'.repeat(201) },
    { search: 'a\u0000b' }
  ]
  for (const query of wrong) {
    const { status, body } = await creator.call(listMarketplaceBots, { query })
    assert.is(status, 400, JSON.stringify(query))
    assert.is(body.error, 'VALIDATION_FAILED')
  }
})

listing('returns an empty page where there is nothing', async () => {
  assert.equal(await list(), { data: [], page: 1, limit: 20, total: 0 })
  assert.equal(await list({ page: 1_000_000_000, limit: 100 }), { data: [], page: 1_000_000_000, limit: 100, total: 0 })
})

listing('counts what a page is taken from, also where a bot is published or retired between the two', async () => {
  const { db } = harness.services
  const party = { partnerId: creator.partnerId, partyId: creator.partnerId }
  const kept = await makeBot(creator, { name: 'Kept' })
  await list()
  // Only the statement of the page reads profiles.
  const beside = (change: (trx: Db) => Promise<unknown>) =>
    readBeside(db, 'community_profiles', { read: () => list(), change })
  let added = ''
  const grown = await beside(async trx => {
    added = await putOnSale(trx, party, { name: 'Added' })
  })
  assert.equal([names(grown), grown.total], [['Added', 'Kept'], 2])
  const shrunk = await beside(async trx => {
    for (const id of [added, kept]) await retireListing(trx, id, party.partyId)
  })
  assert.equal([names(shrunk), shrunk.total], [[], 0])
})

listing('counts what a page is taken from within a transaction, too, while bots come and go', async () => {
  // As on a standby. Both statements of a page are often of different versions here.
  const party = { partnerId: creator.partnerId, partyId: creator.partnerId }
  const ids = await Promise.all(Array.from({ length: 5 }, () => makeBot(creator, { name: 'Here and gone' })))
  let reading = true
  const changing = Promise.all(
    ids.map(async id => {
      while (reading) {
        await db.transaction(trx => retireListing(trx, id, party.partyId))
        await db.transaction(trx => publishListing(trx, id, party))
      }
      await db.transaction(trx => retireListing(trx, id, party.partyId))
    })
  )
  const query = { page: 1, limit: 100, sort: 'newest' } as const
  const side = { test: false, memory: harness.services.reads }
  try {
    for (let time = 0; time < 400; time++) {
      const { bots, total } = await db.transaction(trx => listBots(trx, query, side))
      assert.is(bots.length, total, `read ${time}`)
    }
  } finally {
    reading = false
    await changing
  }
})

listing('shows published bots only, with every field of an entry and no more', async () => {
  await makeDraft(creator, { name: 'Unseen draft' })
  const retired = await makeBot(creator, { name: 'Unseen retired' })
  await creator.call(retireBot, of(retired))
  const botId = await makeBot(creator, { name: 'Seen', oneTimePriceUsd: 19.9, supportedAssets: ['R_50'] })
  const { data, total } = await list()
  assert.is(total, 1)
  const { publishedAt, ...entry } = data[0] as ListingPage['data'][0] & { publishedAt: string }
  assert.match(publishedAt, /^\d{4}-.*Z$/)
  assert.equal(entry, {
    botId,
    name: 'Seen',
    description: draft.description,
    category: 'scalp',
    riskLevel: 'low',
    strategyType: 'mean-reversion',
    supportedAssets: ['R_50'],
    screenshots: [],
    oneTimePriceUsd: 19.9,
    monthlyPriceUsd: null,
    version: '1.0.0',
    rating: null,
    reviews: 0,
    downloads: 0,
    creator: { displayName: 'Acme' }
  })
})

const filters = suite('filters')

filters('narrow by category and risk level, alone and together; unknown ones find nothing', async () => {
  await makeBot(creator, { name: 'Grid high', category: 'grid', riskLevel: 'high' })
  await makeBot(creator, { name: 'Grid low', category: 'grid', riskLevel: 'low' })
  await makeBot(creator, { name: 'AI high', category: 'ai', riskLevel: 'high' })
  assert.equal(names(await list({ category: 'grid' })), ['Grid low', 'Grid high'])
  assert.equal(names(await list({ riskLevel: 'high' })), ['AI high', 'Grid high'])
  const both = await list({ category: 'grid', riskLevel: 'high' })
  assert.equal([names(both), both.total], [['Grid high'], 1])
  assert.equal((await list({ category: 'lucky' })).total, 0)
})

filters('follow a bot that changes its category', async () => {
  const botId = await makeBot(creator, { name: 'Wanderer', category: 'arbitrage' })
  assert.equal(names(await list({ category: 'arbitrage' })), ['Wanderer'])
  await creator.call(updateCreatorBot, { ...of(botId), body: { category: 'custom' } })
  assert.equal((await list({ category: 'arbitrage' })).total, 0)
  assert.equal(names(await list({ category: 'custom', search: 'wanderer' })), ['Wanderer'])
})

const search = suite('search')

search('finds words by their beginning, in any order and case, in all that describes a bot', async () => {
  const botId = await makeBot(creator, {
    name: 'Zephyr Ångström 機械',
    description: 'Follows breakouts after midnight, patiently.',
    strategyType: 'donchian-channel',
    supportedAssets: ['frxEURUSD', 'R_75']
  })
  const found = [
    'zephyr',
    'ZEPH',
    'ångström',
    'midnight breakout',
    'donch channel',
    'frxeur',
    'R_75',
    '機械',
    'scalp zephyr'
  ]
  for (const words of found)
    assert.ok(
      (await list({ search: words })).data.some(bot => bot.botId === botId),
      words
    )
  for (const words of ['ephyr', 'zephyr nowhere', 'zephyr trend'])
    assert.is((await list({ search: words })).total, 0, words)
})

// Names, what finds each of them, and what does not.
const spellings = [
  ['Café Éclair', ['cafe', 'CAFÉ', 'cafe\u0301 ecl', 'éCLAIR'], ['cafés']],
  ['Straße STRASSENBAHN', ['strasse', 'STRAẞE', 'straßenb'], ['strase']],
  ['İstanbul IĞDIR', ['istanbul', 'ISTANBUL', 'İSTANBUL', 'ığdır', 'igdir'], []],
  ['ΟΔΟΣΤΡΩΤΗΡΑΣ', ['ΟΔΟΣ', 'οδος', 'οδοστρωτήρας', 'οδοστρωτηρασ'], []],
  ['Ёлка Йод', ['елка', 'ёлка', 'йод'], []],
  // Marks that make another letter of it.
  ['ガラス कि', ['ガラス', 'ｶﾞﾗｽ', 'कि'], ['カラス', 'का']]
] as const

for (const [name, found, missed] of spellings)
  search(`finds ${name} by any spelling of its letters`, async () => {
    const botId = await makeBot(creator, { name })
    for (const [words, there] of [...found.map(w => [w, true] as const), ...missed.map(w => [w, false] as const)]) {
      const { data } = await list({ search: words })
      assert.is(
        data.some(bot => bot.botId === botId),
        there,
        words
      )
    }
    // As it was listed before the migration.
    const words = name
      .toLowerCase()
      .normalize('NFKC')
      .match(/[\p{L}\p{M}\p{N}]+/gu)
    await db.raw(
      'update marketplace_words set words = array_to_tsvector(cast(:words as text[])) where bot_id = :botId',
      {
        botId,
        words
      }
    )
    await db.transaction(trx => foldWords(trx))
    for (const word of found)
      assert.ok(
        (await list({ search: word })).data.some(bot => bot.botId === botId),
        word
      )
  })

search('takes no word as an operator or a statement, and blanks as no search at all', async () => {
  const hostile = [
    "'; drop table marketplace_bots; --",
    "zephyr' | 'seen",
    'zephyr & !seen',
    'zephyr:*',
    '<-> \\ :Zzz ()',
    '%_',
    '\u{1F916}',
    '"unclosed'
  ]
  for (const words of hostile) assert.ok((await list({ search: words })).total <= 1, words)
  assert.equal((await list({ search: '!!! ???' })).total, 0)
  const letters = Array.from({ length: 100 }, (_, i) => String.fromCharCode(97 + (i % 26)))
  assert.is((await list({ search: letters.join(' ') })).total, 0)
  const { total } = await list()
  assert.is((await list({ search: '   ' })).total, total)
  assert.is((await list({ search: '' })).total, total)
})

search('follows new names, and forgets a bot that is retired', async () => {
  const botId = await makeBot(creator, { name: 'Quokka One' })
  await creator.call(updateCreatorBot, { ...of(botId), body: { name: 'Numbat One' } })
  assert.is((await list({ search: 'quokka' })).total, 0)
  assert.equal(names(await list({ search: 'numbat' })), ['Numbat One'])
  await creator.call(retireBot, of(botId))
  assert.is((await list({ search: 'numbat' })).total, 0)
  await creator.call(updateCreatorBot, { ...of(botId), body: { name: 'Numbat Two' } })
  assert.is((await list({ search: 'numbat' })).total, 0, 'a retired bot stays unlisted when it is changed')
  await creator.call(publishBot, of(botId))
  assert.equal(names(await list({ search: 'numbat' })), ['Numbat Two'])
})

const sorting = suite('sort')

sorting('orders by publication, by average rating, and by downloads', async () => {
  const bots: string[] = []
  for (const number of [1, 2, 3]) bots.push(await makeBot(creator, { name: `Sorted ${number}`, oneTimePriceUsd: 0 }))
  const reviewers = [await harness.makePartner(), await harness.makePartner()]
  // One has the best average, two the same but from more reviews, three the most downloads.
  const plan: [number, number[]][] = [
    [0, [5]],
    [1, [5, 5]],
    [2, [1, 2]]
  ]
  for (const [bot, ratings] of plan)
    for (const [i, rating] of ratings.entries()) {
      const reviewer = reviewers[i] as (typeof reviewers)[0]
      await reviewer.call(purchaseBot, of(bots[bot] as string))
      await reviewer.call(reviewBot, { ...of(bots[bot] as string), body: { rating } })
    }
  await (await harness.makePartner()).call(purchaseBot, of(bots[2] as string))
  const by = async (sort: string) => names(await list({ sort, search: 'sorted' }))
  assert.equal(await by('newest'), ['Sorted 3', 'Sorted 2', 'Sorted 1'])
  assert.equal(await by('top-rated'), ['Sorted 2', 'Sorted 1', 'Sorted 3'])
  assert.equal(await by('top-downloads'), ['Sorted 3', 'Sorted 2', 'Sorted 1'])
  assert.equal(
    (await list({ sort: 'top-rated', search: 'sorted' })).data.map(({ rating }) => rating),
    [5, 5, 1.5]
  )
})

const pages = suite('pages')

pages('show every bot once, in every order, with and without words', async () => {
  for (let i = 0; i < 7; i++) await makeBot(creator, { name: `Paged ${i}` })
  const queries: Record<string, string>[] = [
    { sort: 'newest' },
    { sort: 'top-rated' },
    { sort: 'top-downloads' },
    { sort: 'top-rated', search: 'paged' },
    { sort: 'newest', category: 'scalp' }
  ]
  for (const query of queries) {
    const all = await list({ ...query, limit: 100 })
    assert.is(all.data.length, all.total)
    const seen: string[] = []
    for (let page = 1; seen.length < all.total; page++) {
      const { data } = await list({ ...query, limit: 3, page })
      assert.ok(data.length > 0)
      seen.push(...data.map(({ botId }) => botId))
    }
    assert.equal(
      seen,
      all.data.map(({ botId }) => botId)
    )
  }
})

pages('are right by every way to find them, few, many or far back', async () => {
  const facts = Array.from({ length: 4600 }, (_, i) => ({
    name: `${i % 23 === 0 ? 'Stray' : i % 3 === 0 ? 'Flock herd' : 'Flock'} ${i}`,
    downloads: i % 50,
    rating_count: i % 7,
    rating_sum: (i % 7) * (1 + (i % 5))
  }))
  await seedBots(harness.services.db, creator, facts)
  const orders = {
    newest: 'published_at desc, id desc',
    'top-rated': 'rating desc, rating_count desc, id desc',
    'top-downloads': 'downloads desc, id desc'
  }
  for (const [sort, by] of Object.entries(orders))
    for (const [search, like] of [
      ['flock', 'Flock %'],
      ['herd', 'Flock herd %']
    ] as const) {
      const wanted = (await harness.services
        .db('marketplace_bots')
        .whereLike('name', like)
        .orderByRaw(by)
        .pluck('id')) as string[]
      for (const page of [1, 2, 9, Math.ceil(wanted.length / 100) - 1, Math.ceil(wanted.length / 100)]) {
        const { data, total } = await list({ sort, search, page, limit: 100 })
        assert.is(total, wanted.length)
        assert.equal(
          data.map(({ botId }) => botId),
          wanted.slice((page - 1) * 100, page * 100),
          `${search} ${sort} page ${page}`
        )
      }
    }
})

// The creator has as many bots as a partner may have by now.
const newcomer = await harness.makePartner()

pages('far back stay right whatever comes, goes and changes, in every process', async () => {
  const { db } = harness.services
  const compare = async (what: string) => {
    const flock = (await db('marketplace_bots')
      .where({ status: 'PUBLISHED' })
      .whereLike('name', 'Flock%')
      .orderByRaw('published_at desc, id desc')
      .pluck('id')) as string[]
    for (const address of [harness.address, other.address])
      for (const page of [1, 43, 44]) {
        const headers = { authorization: `Bearer ${creator.key}` }
        const query = { search: 'flock', page, limit: 100 }
        const { body } = await call<ListingPage>(address, listMarketplaceBots, { headers, query })
        assert.is(body.total, flock.length, what)
        const ids = body.data.map(({ botId }) => botId)
        assert.equal(ids, flock.slice((page - 1) * 100, page * 100), `${what}, page ${page}`)
      }
  }
  const rename = (botId: string, name: string) => creator.call(updateCreatorBot, { ...of(botId), body: { name } })
  await compare('at first')
  const places = [0, 1500, 4200]
  const bots = (await db('marketplace_bots')
    .where({ status: 'PUBLISHED' })
    .whereLike('name', 'Flock%')
    .orderByRaw('published_at desc, id desc')
    .pluck('id')) as string[]
  for (const place of places) {
    const botId = bots[place] as string
    await creator.call(retireBot, of(botId))
    await compare(`without the bot at ${place}`)
    await creator.call(publishBot, of(botId))
    await compare(`with the bot at ${place} again`)
    await rename(botId, 'Straggler')
    await makeBot(newcomer, { name: 'Flock new' })
    await compare(`with the bot at ${place} renamed and a new one`)
    await rename(botId, 'Flock again')
  }
  await compare('with all of them')
  await seedBots(db, creator, [{ name: 'Flock untold' }, { name: 'Flock untold too' }])
  await compare('with some nobody wrote down the coming of')
})

pages('count exactly in every process, whoever changes what is listed', async () => {
  const totalOf = async () => {
    const headers = { authorization: `Bearer ${creator.key}` }
    const query = { search: 'counted', limit: 1 }
    return (await call<ListingPage>(other.address, listMarketplaceBots, { headers, query })).body.total
  }
  assert.is(await totalOf(), 0)
  const botId = await makeBot(newcomer, { name: 'Counted one' })
  assert.is(await totalOf(), 1)
  await makeBot(newcomer, { name: 'Counted two' })
  assert.is(await totalOf(), 2)
  await newcomer.call(retireBot, of(botId))
  assert.is(await totalOf(), 1)
})

pages(
  'count anew after the database was restored to a point before the last change, and has changed since',
  async () => {
    const { db } = harness.services
    const category = 'arbitrage'
    const kept = await makeBot(newcomer, { name: 'Kept over a restore', category })
    const lost = await makeBot(newcomer, { name: 'Published after the backup', category })
    const { total } = await list({ category })
    // As the restored database has it: without the last version of the list, and without the bot.
    await db.transaction(async trx => {
      const [{ version }] = await trx('marketplace_listing').decrement('version', 1).returning('version')
      await trx('marketplace_changes').where('version', '>', version).delete()
      await trx('marketplace_words').where({ bot_id: lost }).delete()
      await trx('marketplace_bots').where({ id: lost }).update({ status: 'DRAFT', published_at: null })
    })
    const { generation } = await readClock(db)
    assert.ok(await noteLineage(db, { generation: (generation as number) + 1, position: 0 }))
    // The same number as the version that was lost.
    await makeBot(newcomer, { name: 'Published after the restore', category: 'grid' })
    const page = await list({ category })
    assert.is(page.total, total - 1)
    assert.equal(page.data.map(({ botId }) => botId).slice(0, 1), [kept])
  }
)

pages.after(closeAll)
listing.run()
filters.run()
search.run()
sorting.run()
pages.run()

// Words of the marketplace's list without accents and with the letters that differ by case alone folded (ß and ss, ς and σ, İ, ı and i), as
// searches compare them from here on. A bot that a process of the previous version lists beside this one is found by such a word once it
// is changed or published again.
import type { Knex } from 'knex'

const folded = (word: string): string =>
  word
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .replaceAll('ς', 'σ')
    .normalize('NFC')
    .slice(0, 64)

// More versions than changes are kept of: what processes remember of the list is read again.
const VERSIONS = 2000

export async function up(db: Knex): Promise<void> {
  // Other words are as they were.
  const { rows } = (await db.raw(
    `select bot_id, tsvector_to_array(words) as words from marketplace_words
      where exists (select from unnest(tsvector_to_array(words)) word where word ~ '[^ -~]') order by bot_id for no key update`
  )) as { rows: { bot_id: string; words: string[] }[] }
  for (const { bot_id: id, words } of rows)
    await db.raw('update marketplace_words set words = array_to_tsvector(cast(:words as text[])) where bot_id = :id', {
      id,
      words: [...new Set(words.map(folded))].filter(word => word !== '')
    })
  await db.raw(`update marketplace_listing set version = version + ${VERSIONS}`)
  await db.raw('delete from marketplace_changes')
}

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
// Rows that are locked at a time: some tenths of a second.
const AT_ONCE = 500

/** A hundred thousand rows take a minute, in which their bots are to be changed and published. */
export const config = { transaction: false }

export async function up(db: Knex): Promise<void> {
  for (let last: string | undefined = ''; last !== undefined; ) {
    const after: string = last
    last = await db.transaction(trx => foldSome(trx, after))
  }
  await db.transaction(async trx => {
    await trx.raw(`update marketplace_listing set version = version + ${VERSIONS}`)
    await trx.raw('delete from marketplace_changes')
  })
}

/** Folds the words of some bots after one; returns the last of them, undefined without one. */
async function foldSome(trx: Knex, after: string): Promise<string | undefined> {
  // Other words are as they were.
  const { rows } = (await trx.raw(
    `select bot_id as id, tsvector_to_array(words) as words from marketplace_words
      where bot_id > :after and exists (select from unnest(tsvector_to_array(words)) word where word ~ '[^ -~]')
      order by bot_id limit ${AT_ONCE} for no key update`,
    { after }
  )) as { rows: { id: string; words: string[] }[] }
  const changed = rows.map(({ id, words }) => ({ id, words: words.map(folded).filter(word => word !== '') }))
  await trx.raw(
    `update marketplace_words w set words = array_to_tsvector(array(select distinct jsonb_array_elements_text(c.words)))
       from jsonb_to_recordset(:changed::jsonb) c (id text, words jsonb) where w.bot_id = c.id`,
    { changed: JSON.stringify(changed) }
  )
  return rows.at(-1)?.id
}

// operator archive: orders that ended long ago, by months: what is there, exports, and months that are dropped once both
// their exports are on disk and verified.
import { join } from 'node:path'
import type { Command } from 'commander'
import {
  countLive,
  countStillChanging,
  dropMonth,
  exportMonth,
  hasEvents,
  listMonthsBefore,
  readArchive,
  readUnmoved
} from '../../db/orders/archive-months.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { type Db, isLockTimeout } from '../../db/postgres/connection.ts'
import { ArchiveDrop, ArchiveExport } from '../../schemas/commands/archive.ts'
import { type Opened, withPatience, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { lines, table } from '../terminal/output.ts'
import { CommandRefusal } from '../terminal/refusals.ts'
import { type ExportFile, verifyExport, writeExport } from './archive-files.ts'

/** Orders that may move are counted up to this number. */
const COUNTED = 100_000

export function addArchive(program: Command): void {
  const archive = program
    .command('archive')
    .description('Orders that ended ARCHIVE_AFTER_DAYS ago, by months: status, export, drop')

  archive
    .command('status')
    .description('Show the months of the archive with orders and bytes, and what is still to move')
    .addHelpText('after', examples('archive status', 'archive status --json'))
    .action(
      withStore(
        async ({ db, config }) => {
          const [{ months, ...sums }, unmoved] = await Promise.all([
            readArchive(db),
            readUnmoved(db, { days: config.archiveAfterDays, most: COUNTED })
          ])
          return {
            archiveAfterDays: config.archiveAfterDays,
            ...sums,
            toMove: unmoved.orders,
            toMoveCountedUpTo: COUNTED,
            oldestToMove: unmoved.oldestEnded,
            data: months
          }
        },
        { show: ({ data, ...facts }) => `${lines(facts)}${data.length > 0 ? `\n\n${table(data)}` : ''}` }
      )
    )

  archive
    .command('export')
    .description('Write the archived orders of a month into a new file that only you can read')
    .requiredOption('--month <YYYY-MM>', 'the month in which they were created')
    .requiredOption('--file <path>', 'the file')
    .option('--format <format>', 'csv or jsonl (JSON lines)', 'jsonl')
    .addHelpText('after', examples('archive export --month 2025-03 --format csv --file orders-2025-03.csv'))
    .action(
      withStore(
        async ({ url, db: short, actor }, { month, format, file }: ArchiveExport) =>
          withPatience(url, async db => {
            const { orders, files } = await exportOf(db, month, [{ format, file }])
            await recordAudit(short, { actor, action: 'archive.export', target: month, details: { orders, files } })
            return { month, orders, ...files[0] }
          }),
        { input: ArchiveExport, acts: true }
      )
    )

  archive
    .command('drop')
    .description('Export months as CSV and as JSON lines, verify the files, and drop these months for good')
    .requiredOption('--before <YYYY-MM>', 'months before this one')
    .requiredOption('--directory <path>', 'where the files go: orders-YYYY-MM.csv and .jsonl, which must not exist')
    .addHelpText('after', examples('archive drop --before 2019-01 --directory /srv/exports'))
    .action(
      withStore(drop, {
        input: ArchiveDrop,
        acts: true,
        lists: () => true,
        show: ['month', 'orders', 'checksum', 'files']
      })
    )
}

/** Writes a month into files of one snapshot. Throws when there is nothing to write. */
async function exportOf(db: Db, month: string, files: Pick<ExportFile, 'file' | 'format'>[]) {
  const written = await db.transaction(trx => writeExport(exportMonth(trx, month), files), {
    isolationLevel: 'repeatable read'
  })
  if (written.orders === 0) throw new CommandRefusal(`No order of ${month} is in the archive.`)
  return written
}

async function drop({ db: short, url, actor, confirm, note }: Opened, { before, directory }: ArchiveDrop) {
  const months = await listMonthsBefore(short, before)
  if (months.length === 0) throw new CommandRefusal(`The archive has no month before ${before}.`)
  await confirm(
    `Export and drop ${months.length} months, ${months[0]} to ${months.at(-1)}? Their orders are in the files alone afterwards.`
  )
  return withPatience(url, async db => {
    const data = []
    for (const month of months) {
      const live = await countLive(db, month, COUNTED)
      if (live > 0)
        throw new CommandRefusal(
          `${month} has ${live} orders that have not moved to the archive: they run, or ended less than ARCHIVE_AFTER_DAYS ago; months before it were dropped.`
        )
      if (await hasEvents(db, month))
        throw new CommandRefusal(
          `${month} has orders whose events are still kept (EVENT_DAYS); months before it were dropped.`
        )
      const changing = await countStillChanging(db, month, COUNTED)
      if (changing > 0)
        throw new CommandRefusal(
          `${changing} orders that are not final were bought before the last order of ${month} ended: when they end, sums would be recomputed without the orders of ${month}. Earlier months were dropped.`
        )
      note(`exporting ${month}`)
      const file = (ending: 'csv' | 'jsonl') => ({ format: ending, file: join(directory, `orders-${month}.${ending}`) })
      const written = await exportOf(db, month, [file('csv'), file('jsonl')])
      await verifyExport(written)
      const { orders, checksum, files } = written
      note(`dropping ${month}: ${orders} orders`)
      await db
        .transaction(async trx => {
          if (!(await dropMonth(trx, { month, orders, checksum })))
            throw new CommandRefusal(`${month} was changed while it was exported; remove its files and repeat.`)
          await recordAudit(trx, { actor, action: 'archive.drop', target: month, details: { orders, checksum, files } })
        })
        .catch((error: unknown) => {
          if (!isLockTimeout(error)) throw error
          throw new CommandRefusal(
            `${month} is in use, by a dump for example, and was not dropped; months before it were. Remove its files and repeat later.`
          )
        })
      data.push({ month, orders, checksum, files: files.map(each => each.file) })
    }
    return { data }
  })
}

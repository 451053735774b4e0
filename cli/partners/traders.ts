// operator traders: a partner's traders and their broker accounts, their data given out or erased; tokens are never shown.
import type { Command } from 'commander'
import { getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { getNamedTrader, searchTraders } from '../../db/platform/named.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { listAccounts } from '../../db/traders/accounts.ts'
import { eraseTrader, exportTrader } from '../../db/traders/erasure.ts'
import { listTraders, type TraderRecord } from '../../db/traders/traders.ts'
import {
  TraderErasure,
  TraderExport,
  TraderListQuery,
  TraderName,
  TraderSearch
} from '../../schemas/commands/traders.ts'
import { type Opened, withPatience, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { openNewFile } from '../terminal/new-file.ts'
import { lines, table } from '../terminal/output.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export function addTraders(program: Command): void {
  const traders = program
    .command('traders')
    .description('Traders and their broker accounts: list, find, show, export, erase')

  traders
    .command('list')
    .description("List a partner's traders, oldest first")
    .requiredOption('--partner <partnerId>', 'whose traders')
    .option('--limit <count>', 'how many at most', '1000')
    .addHelpText('after', examples('traders list --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db }, { partner, limit }: TraderListQuery) => {
          await getPartner(db, partner)
          return { data: (await listTraders(db, partner, limit)).map(presentTrader) }
        },
        { input: TraderListQuery, show: ['traderId', 'traderExternalId', 'name', 'email', 'connectedAt', 'createdAt'] }
      )
    )

  traders
    .command('find <text>')
    .description('List traders of all partners with this text in an id, the name, the e-mail or a broker account')
    .option('--limit <count>', 'how many at most', '100')
    .addHelpText('after', examples('traders find anna', 'traders find CR9000 --csv'))
    .action(
      withStore(async ({ db }, { text, limit }: TraderSearch) => ({ data: await searchTraders(db, text, limit) }), {
        input: TraderSearch,
        show: ['traderId', 'traderExternalId', 'partner', 'name', 'email', 'accountIds']
      })
    )

  traders
    .command('show <trader>')
    .description('Show a trader with its broker accounts, by its id, external id, e-mail or one of the accounts')
    .addHelpText('after', examples('traders show trd_01jd…', 'traders show anna@example.com', 'traders show CR1234567'))
    .action(
      withStore(
        async ({ db }, { trader: name }: TraderName) => {
          const trader = await getNamedTrader(db, name)
          const accounts = await listAccounts(db, trader.traderId)
          return {
            ...presentTrader(trader),
            accounts: accounts.map(account => ({
              accountId: account.accountId,
              accountMode: account.accountMode,
              currency: account.currency,
              active: account.id === trader.activeAccountId,
              status: account.status,
              reason: account.rejectedReason,
              connectedAt: account.connectedAt
            }))
          }
        },
        {
          input: TraderName,
          show: ({ accounts, ...trader }) => `${lines(trader)}\n\n${table(accounts)}`
        }
      )
    )

  traders
    .command('export <trader>')
    .description('Give out all data of a trader but secrets; the audit log records it')
    .option('--file <path>', 'write JSON lines into a new file that only you can read, instead of one document')
    .addHelpText(
      'after',
      examples('traders export trd_01jd… --file trader.jsonl', 'traders export anna@example.com --json')
    )
    .action(withStore(exportAll, { input: TraderExport, acts: true, show: result => JSON.stringify(result, null, 2) }))

  traders
    .command('erase <trader>')
    .description('Erase a trader for good: orders, money and audit log stay without a name, all else goes')
    .requiredOption('--reason <text>', 'why, for the audit log; without the name of the person')
    .addHelpText('after', examples('traders erase trd_01jd… --reason "request of 2026-11-20"'))
    .action(withStore(erase, { input: TraderErasure, acts: true }))
}

// TypeScript does not know it yet.
const { rawJSON } = JSON as unknown as { rawJSON(text: string): object }

/** Numbers as the database has them, for a document that is written again: they may have more digits than a JavaScript number has. */
const exactly = (_key: string, value: unknown, context?: { source?: string }): unknown =>
  typeof value === 'number' && context?.source !== undefined ? rawJSON(context.source) : value

// More rows than these make no document.
const MAX_IN_DOCUMENT = 20_000

/** All rows of a trader as one document, or line by line into a file. */
async function exportAll({ db, url, actor }: Opened, { trader: name, file }: TraderExport): Promise<object> {
  const { traderId, partnerId } = await getNamedTrader(db, name)
  const target = file === undefined ? undefined : await openNewFile(file)
  const tables: Record<string, object[]> = {}
  let count = 0
  try {
    // Written before the first row: an export that breaks off has given out some rows, too.
    await recordAudit(db, { actor, action: 'traders.export', target: traderId, details: { partnerId } })
    const give = async (trx: Db) => {
      for await (const { table: of, row } of exportTrader(trx, traderId)) {
        count += 1
        if (target) await target.append(`{"table":${JSON.stringify(of)},"row":${row}}\n`)
        else if (count > MAX_IN_DOCUMENT)
          throw new CommandRefusal(`There are more than ${MAX_IN_DOCUMENT} rows: use --file.`)
        else {
          tables[of] ??= []
          tables[of].push(JSON.parse(row, exactly))
        }
      }
    }
    // One snapshot for all tables.
    await withPatience(url, patient => patient.transaction(give, { isolationLevel: 'repeatable read' }))
    await target?.finish()
  } catch (error) {
    await target?.discard()
    throw error
  }
  return target ? { traderId, rows: count, file } : { traderId, tables }
}

/** Erases a trader, after confirmation. */
async function erase({ db, url, vault, actor, confirm }: Opened, { trader: name, reason }: TraderErasure) {
  const { traderId, partnerId } = await getNamedTrader(db, name)
  await confirm(`Erase ${traderId} of ${partnerId} for good? There is no way back.`)
  return withPatience(url, patient =>
    patient.transaction(async trx => {
      const erased = await eraseTrader(trx, vault, traderId)
      // A repeat that finds nothing to erase is not logged.
      if (Object.keys(erased.tables).length > 0)
        await recordAudit(trx, {
          actor,
          action: 'traders.erase',
          target: traderId,
          details: { partnerId, reason, tables: erased.tables }
        })
      return erased
    })
  )
}

function presentTrader(trader: TraderRecord) {
  return {
    traderId: trader.traderId,
    partnerId: trader.partnerId,
    traderExternalId: trader.externalId,
    name: trader.name,
    email: trader.email,
    connectedAt: trader.connectedAt,
    createdAt: trader.createdAt
  }
}

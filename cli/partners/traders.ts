// operator traders: a partner's traders and their broker accounts; tokens are never shown.
import type { Command } from 'commander'
import { getPartner } from '../../db/partners/partners.ts'
import { getNamedTrader, searchTraders } from '../../db/platform/named.ts'
import { listAccounts } from '../../db/traders/accounts.ts'
import { listTraders, type TraderRecord } from '../../db/traders/traders.ts'
import { TraderListQuery, TraderName, TraderSearch } from '../../schemas/commands/operator.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { lines, table } from '../terminal/output.ts'

export function addTraders(program: Command): void {
  const traders = program.command('traders').description('Traders and their broker accounts: list, find, show')

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

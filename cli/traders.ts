// operator traders: a partner's traders and their broker accounts; tokens are never shown.
import type { Command } from 'commander'
import { listAccounts } from '../db/accounts.ts'
import { getPartner } from '../db/partners.ts'
import { getTraderById, listTraders, type TraderRecord } from '../db/traders.ts'
import { TraderRef, TradersQuery } from '../schemas/commands.ts'
import { withStore } from './context.ts'
import { examples } from './examples.ts'
import { lines, table } from './output.ts'

export function addTraders(program: Command): void {
  const traders = program.command('traders').description('Traders and their broker accounts: list, show')

  traders
    .command('list')
    .description("List a partner's traders, oldest first")
    .requiredOption('--partner <partnerId>', 'whose traders')
    .option('--limit <count>', 'how many at most', '1000')
    .addHelpText('after', examples('traders list --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db }, { partner, limit }: TradersQuery) => {
          await getPartner(db, partner)
          return { data: (await listTraders(db, partner, limit)).map(presentTrader) }
        },
        { input: TradersQuery, show: ['traderId', 'traderExternalId', 'name', 'email', 'connectedAt', 'createdAt'] }
      )
    )

  traders
    .command('show <traderId>')
    .description('Show a trader with its broker accounts')
    .addHelpText('after', examples('traders show trd_01jd…'))
    .action(
      withStore(
        async ({ db }, { traderId }: TraderRef) => {
          const trader = await getTraderById(db, traderId)
          const accounts = await listAccounts(db, traderId)
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
          input: TraderRef,
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

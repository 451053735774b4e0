// operator ledger: the proof that the books are right.
import type { Command } from 'commander'
import { verifyLedger } from '../../db/money/verify.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export function addLedger(program: Command): void {
  program
    .command('ledger')
    .description('The books behind all wallets: verify them')
    .command('verify')
    .description('Prove from scratch that every balance follows from its entries and all come to zero')
    .addHelpText('after', examples('ledger verify'))
    .action(
      withStore(
        async ({ db, note }) => {
          note('Reading every entry and every transfer …')
          const { broken, ...verified } = await verifyLedger(db)
          if (broken) throw new CommandRefusal(`The ledger is broken: ${broken}`)
          return { ok: true, ...verified }
        },
        {
          show: ({ accounts, transfers, entries }) =>
            `All is well: ${accounts} accounts, ${transfers} transfers, ${entries} entries; every balance follows, all come to zero.`
        }
      )
    )
}

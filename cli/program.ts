// The program: one add function per noun. What is not added here does not exist.
import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { addAudit } from './audit.ts'
import { addBilling } from './billing.ts'
import { addBroker } from './broker.ts'
import { addCompletion } from './completion.ts'
import { addConsole } from './console.ts'
import { addContracts } from './contracts.ts'
import { addDatabase } from './db.ts'
import { addDoctor } from './doctor.ts'
import { addEvents } from './events.ts'
import { addFindings } from './findings.ts'
import { addKeys } from './keys.ts'
import { addLedger } from './ledger.ts'
import { addOrders } from './orders.ts'
import { addPartners } from './partners.ts'
import { addPayouts } from './payouts.ts'
import { addProcesses } from './processes.ts'
import { addPurchases } from './purchases.ts'
import { addQueues } from './queues.ts'
import { addRun } from './run.ts'
import { addSessions } from './sessions.ts'
import { addSpec } from './spec.ts'
import { addTokens } from './tokens.ts'
import { addTraders } from './traders.ts'
import { addTrading } from './trading.ts'
import { addWallet } from './wallet.ts'

/** Every command with its options; parsing it runs one. */
export function createProgram(): Command {
  const program = new Command('operator')
    .description('Runs and administers the trading operator service.')
    .version(about.version)
    .option('--json', 'print one JSON document on stdout and nothing else')
    .option('--csv', 'print a list as CSV, with all its fields')
    .option('--yes', 'agree to every question')
    .option('--no-input', 'never ask; refuse what would need a question')
    .configureHelp({ showGlobalOptions: true, sortSubcommands: false })
    .exitOverride()
    .helpCommand(true)
  addRun(program)
  addConsole(program)
  addPartners(program)
  addKeys(program)
  addSessions(program)
  addWallet(program)
  addBilling(program)
  addPurchases(program)
  addPayouts(program)
  addLedger(program)
  addTrading(program)
  addTraders(program)
  addOrders(program)
  addContracts(program)
  addFindings(program)
  addEvents(program)
  addQueues(program)
  addProcesses(program)
  addAudit(program)
  addTokens(program)
  addDatabase(program)
  addDoctor(program)
  addSpec(program)
  addBroker(program)
  addCompletion(program)
  pointToHelp(program, program.name())
  return program
}

/** Has every wrong use answered in one line: what is wrong, a suggestion, and where its right use stands. */
function pointToHelp(command: Command, path: string): void {
  command.configureOutput({
    outputError: (text, write) => write(`${text.trim().replaceAll(/\s*\n\s*/g, ' ')} (see ${path} --help)\n`)
  })
  for (const each of command.commands) pointToHelp(each, `${path} ${each.name()}`)
}

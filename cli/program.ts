// The program: one add function per noun. What is not added here does not exist.
import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { addAnalytics } from './analytics/analytics.ts'
import { addConsole } from './console.ts'
import { addDoctor } from './doctor.ts'
import { addBilling } from './money/billing.ts'
import { addLedger } from './money/ledger.ts'
import { addPayouts } from './money/payouts.ts'
import { addPurchases } from './money/purchases.ts'
import { addWallet } from './money/wallet.ts'
import { addArchive } from './orders/archive.ts'
import { addContracts } from './orders/contracts.ts'
import { addFindings } from './orders/findings.ts'
import { addOrders } from './orders/orders.ts'
import { addTrading } from './orders/trading.ts'
import { addKeys } from './partners/keys.ts'
import { addListen } from './partners/listen.ts'
import { addPartners } from './partners/partners.ts'
import { addSessions } from './partners/sessions.ts'
import { addTraders } from './partners/traders.ts'
import { addWebhooks } from './partners/webhooks.ts'
import { addAudit } from './platform/audit.ts'
import { addBroker } from './platform/broker.ts'
import { addDatabase } from './platform/db.ts'
import { addEvents } from './platform/events.ts'
import { addMcp } from './platform/mcp.ts'
import { addProcesses } from './platform/processes.ts'
import { addQueues } from './platform/queues.ts'
import { addRequests } from './platform/requests.ts'
import { addSpec } from './platform/spec.ts'
import { addTokens } from './platform/tokens.ts'
import { addRun } from './run.ts'
import { addCompletion } from './terminal/completion.ts'
import { endingOf } from './terminal/refusals.ts'

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
  addArchive(program)
  addContracts(program)
  addFindings(program)
  addEvents(program)
  addAnalytics(program)
  addWebhooks(program)
  addListen(program)
  addRequests(program)
  addQueues(program)
  addProcesses(program)
  addAudit(program)
  addTokens(program)
  addDatabase(program)
  addDoctor(program)
  addSpec(program)
  addMcp(program)
  addBroker(program)
  addCompletion(program)
  pointToHelp(program, program.name())
  return program
}

/**
 * Runs the command these arguments name, prints its result and, where it does not succeed, why on stderr. Sets
 * process.exitCode then; never rejects.
 */
export async function runProgram(args: readonly string[]): Promise<void> {
  try {
    await createProgram().parseAsync(args, { from: 'user' })
  } catch (error) {
    const { exitCode, line } = endingOf(error)
    if (line) process.stderr.write(`${line}\n`)
    process.exitCode = exitCode
  }
}

/** Reports every wrong use in one line: what is wrong, a suggestion, and where the right use is described. */
function pointToHelp(command: Command, path: string): void {
  command.configureOutput({
    outputError: (text, write) => write(`${text.trim().replaceAll(/\s*\n\s*/g, ' ')} (see ${path} --help)\n`)
  })
  for (const each of command.commands) pointToHelp(each, `${path} ${each.name()}`)
}

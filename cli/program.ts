// The program: one add function per noun. What is not listed here does not exist.
import { Command } from 'commander'
import about from '../package.json' with { type: 'json' }
import { endingOf } from './terminal/refusals.ts'

/** The groups of commands by their words, in the order of the help. What a group needs is loaded with it. */
const groups: Record<string, () => Promise<(program: Command) => void>> = {
  run: async () => (await import('./run.ts')).addRun,
  console: async () => (await import('./console.ts')).addConsole,
  partners: async () => (await import('./partners/partners.ts')).addPartners,
  keys: async () => (await import('./partners/keys.ts')).addKeys,
  sessions: async () => (await import('./partners/sessions.ts')).addSessions,
  wallet: async () => (await import('./money/wallet.ts')).addWallet,
  billing: async () => (await import('./money/billing.ts')).addBilling,
  purchases: async () => (await import('./money/purchases.ts')).addPurchases,
  payouts: async () => (await import('./money/payouts.ts')).addPayouts,
  ledger: async () => (await import('./money/ledger.ts')).addLedger,
  trading: async () => (await import('./orders/trading.ts')).addTrading,
  traders: async () => (await import('./partners/traders.ts')).addTraders,
  orders: async () => (await import('./orders/orders.ts')).addOrders,
  archive: async () => (await import('./orders/archive.ts')).addArchive,
  contracts: async () => (await import('./orders/contracts.ts')).addContracts,
  findings: async () => (await import('./orders/findings.ts')).addFindings,
  events: async () => (await import('./platform/events.ts')).addEvents,
  analytics: async () => (await import('./analytics/analytics.ts')).addAnalytics,
  webhooks: async () => (await import('./partners/webhooks.ts')).addWebhooks,
  listen: async () => (await import('./partners/listen.ts')).addListen,
  requests: async () => (await import('./platform/requests.ts')).addRequests,
  queues: async () => (await import('./platform/queues.ts')).addQueues,
  processes: async () => (await import('./platform/processes.ts')).addProcesses,
  audit: async () => (await import('./platform/audit.ts')).addAudit,
  tokens: async () => (await import('./platform/tokens.ts')).addTokens,
  db: async () => (await import('./platform/db.ts')).addDatabase,
  doctor: async () => (await import('./doctor.ts')).addDoctor,
  spec: async () => (await import('./platform/spec.ts')).addSpec,
  mcp: async () => (await import('./platform/mcp.ts')).addMcp,
  broker: async () => (await import('./platform/broker.ts')).addBroker,
  completion: async () => (await import('./terminal/completion.ts')).addCompletion
}

/**
 * The commands with their options; parsing `args` runs one. Where they begin with the word of a group it has that group alone,
 * which takes half the time to load; otherwise it has all, as for help, suggestions and completion.
 */
export async function createProgram(args: readonly string[] = []): Promise<Command> {
  const program: Command = new Command('operator')
    .description('Runs and administers the trading operator service.')
    // The short form -V works only as the first argument: elsewhere it may be part of a value (`--after -V…`, a cursor).
    .version(about.version, args[0] === '-V' ? '-V, --version' : '--version')
    .option('--json', 'print one JSON document on stdout and nothing else')
    .option('--csv', 'print a list as CSV, with all its fields')
    .option('--yes', 'confirm without a prompt')
    .option('--no-input', 'never prompt; refuse what needs a confirmation')
    .configureHelp({
      showGlobalOptions: true,
      sortSubcommands: false,
      // Not those of a group, such as `analytics`, which its subcommands do not take.
      visibleGlobalOptions: command => (command === program ? [] : [...program.options])
    })
    .exitOverride()
    .helpCommand(true)
  for (const add of await Promise.all(groupsFor(args).map(load => load()))) add(program)
  pointToHelp(program, program.name())
  return program
}

function groupsFor(args: readonly string[]) {
  const word = args.find(arg => !arg.startsWith('-')) ?? ''
  // The script for the shell is made from all.
  const one = word !== 'completion' && Object.hasOwn(groups, word) ? groups[word] : undefined
  return one ? [one] : Object.values(groups)
}

/**
 * Runs the command these arguments name, prints its result and, where it does not succeed, why on stderr. Sets
 * process.exitCode then; never rejects.
 */
export async function runProgram(args: readonly string[]): Promise<void> {
  try {
    const program = await createProgram(args)
    await program.parseAsync(args, { from: 'user' })
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

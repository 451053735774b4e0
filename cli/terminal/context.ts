// What every command runs in: arguments become one checked input, the store is opened only for commands that need it
// and always closed, the result is printed. A command itself declares only its own part.
import type { Command } from 'commander'
import { operatorName } from '../../db/platform/audit.ts'
import { SeveralFit } from '../../db/platform/named.ts'
import { readEnvironment } from '../../db/platform/process.ts'
import { openStore, type Store } from '../../db/platform/store.ts'
import { type Db, isBrokenConnection, openDatabase } from '../../db/postgres/connection.ts'
import { check } from '../../schemas/checks/validator.ts'
import type { Config } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import { type Format, NO_LIST, print, type Show } from './output.ts'
import { CommandRefusal, endingOf, ReportedAlready, UsageError } from './refusals.ts'
import { heading, pauseOf, repeat } from './watching.ts'

/** What a command without database gets. */
export interface Context {
  config: Config
  /** The environment the configuration was read from, for processes a command starts. */
  env: NodeJS.ProcessEnv
  /** The acting operator, for the audit log. Throws in a command that does not declare `acts`. */
  readonly actor: string
  json: boolean
  /**
   * Returns when the operator agrees or --yes was given. Throws CommandRefusal when not, or when there is no terminal to
   * confirm on.
   */
  confirm(question: string): Promise<void>
  /** As `confirm`, on a terminal. Without one it returns at once: for what is unusual but no reason to stop a script. */
  confirmOnTerminal(question: string): Promise<void>
  /** Prints progress; on stderr, and only on a terminal. */
  note(text: string): void
  /** Has the command end with exit code 1 although it has a result to print; `why` is the line on stderr. */
  fail(why: string): void
}

/** What a command with database gets. */
export interface Opened extends Context, Store {}

interface Globals {
  json?: boolean
  csv?: boolean
  yes?: boolean
  input: boolean
}

interface Verb<Result> {
  /** Shape of arguments and options together, by their names; checked before anything is opened. */
  input?: Schema
  /** How a person sees the result; without it fields and lists are shown as they are. */
  show?: Show<Result>
  /** It changes something: on a terminal where OPERATOR_NAME is unset it prompts for the operator's name. */
  acts?: boolean
  /**
   * Whether the result with these arguments is a list, which --csv can print. Unset: the result itself shows it; for a command
   * that `acts`, never.
   */
  lists?: (input: never) => boolean
}

type CommandAction = (...given: unknown[]) => Promise<void>

/**
 * The action of a command that works on the database: `run` gets the open store and one object of arguments
 * and options; what it returns is printed, as JSON with --json.
 */
export function withStore<Input, Result extends object>(
  run: (opened: Opened, input: Input) => Promise<Result>,
  verb: Verb<Result> = {}
): CommandAction {
  return action<Input, Result>(verb, async (context, input, shown) => {
    const store = await openStore(context.config, { name: 'cli' })
    try {
      // Delegates to the store instead of copying it: the acting operator is known only to a command that declares
      // `acts`.
      const opened: Opened = Object.assign(Object.create(context), store)
      await shown(() => run(opened, input))
    } finally {
      await store.close()
    }
  })
}

/** A connection whose statements may take as long as a whole month of orders does, or all that a trader has. */
export async function withPatience<T>(url: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = openDatabase({ url, pool: 2, name: 'cli-patient', limits: null })
  try {
    return await work(db)
  } finally {
    await db.destroy()
  }
}

/** The action of a command that opens by itself what it needs. Its result, or what it prints as it happens, is no list. */
export function withoutStore<Input, Result extends object>(
  run: (context: Context, input: Input) => Promise<Result | undefined>,
  verb: Verb<Result> = {}
): CommandAction {
  return action<Input, Result>({ ...verb, lists: () => false }, (context, input, shown) =>
    shown(() => run(context, input))
  )
}

type ShowResult<Result> = (work: () => Promise<Result | undefined>) => Promise<void>

function action<Input, Result extends object>(
  { input: shape, show, acts = false, lists = acts ? () => false : undefined }: Verb<Result>,
  perform: (context: Context, input: Input, shown: ShowResult<Result>) => Promise<void>
): CommandAction {
  return async (...given) => {
    const command = given.at(-1) as Command
    const input = inputOf(command, shape) as Input
    const globals = command.optsWithGlobals() as unknown as Globals
    const format = formatOf(globals)
    // Refused before anything is changed or printed: afterwards the command would be repeated, or hide what is shown only once.
    if (format === 'csv' && lists && !lists(input as never)) throw new UsageError(NO_LIST)
    const seconds = pauseOf(command)
    if (seconds !== undefined && format !== 'text') throw new UsageError('--watch goes without --json and --csv')
    const { config, env } = readEnvironment()
    const name = config.operatorName ?? (acts ? await promptForName(globals) : undefined)
    const context: Context = {
      config,
      env,
      json: format === 'json',
      get actor() {
        if (!acts) throw new Error(`operator ${command.name()} does not declare that it acts`)
        return operatorName(name)
      },
      confirm: question => confirm(question, globals),
      confirmOnTerminal: async question => {
        if (canAsk(globals)) await confirm(question, globals)
      },
      note: text => {
        if (process.stderr.isTTY && format === 'text') process.stderr.write(`${text}\n`)
      },
      fail: why => {
        process.exitCode = 1
        process.stderr.write(`${why}\n`)
      }
    }
    const performed = perform(context, input, async work => {
      const round = async (before = '') => {
        const result = await work().catch(error => offer(error, format))
        if (result !== undefined) print(result, { format, show, before })
      }
      if (seconds === undefined) await round()
      else await repeat(() => round(heading()), seconds)
    })
    await (acts ? performed.catch(unsure) : performed)
  }
}

/** A command whose acknowledgement was lost may have been done, and must not simply be repeated. */
function unsure(error: unknown): never {
  if (!isBrokenConnection(error)) throw error
  const message =
    'The connection to the database broke: this may be done, or not. Look before you repeat it: what is done has its line in operator audit list.'
  throw new CommandRefusal(message, { cause: error })
}

function formatOf({ json, csv }: Globals): Format {
  if (json && csv) throw new UsageError('--json and --csv exclude each other')
  if (json) return 'json'
  return csv ? 'csv' : 'text'
}

/** Where a name fits several records they are printed, to choose from; everything else is thrown on. */
function offer(error: unknown, format: Format): never {
  if (!(error instanceof SeveralFit)) throw error
  const { candidates, code, message } = error
  if (format === 'json') print({ error: code, message, candidates }, { format })
  else print({ data: candidates }, { format })
  process.stderr.write(`${endingOf(error).line}\n`)
  throw new ReportedAlready(1)
}

/**
 * The command's options. What is written after a subcommand is taken by a command above it that has an option of that name: one
 * that the subcommand does not have is refused, and not left out. Those of the program itself are for every command.
 */
function optionsOf(command: Command): Record<string, unknown> {
  const options = { ...command.opts() }
  const own = new Set(command.options.map(option => option.attributeName()))
  for (let above = command.parent; above?.parent; above = above.parent)
    for (const option of above.options) {
      const name = option.attributeName()
      if (above.getOptionValueSource(name) !== 'cli') continue
      if (!own.has(name)) throw new UsageError(`${above.name()} ${command.name()} takes no ${option.long}`)
      if (command.getOptionValueSource(name) !== 'cli') options[name] = above.getOptionValue(name)
    }
  return options
}

/** Arguments and options as one object; an error names the option whose rule is violated. */
function inputOf(command: Command, shape: Schema | undefined): object {
  const names = command.registeredArguments.map(argument => argument.name())
  const positional = names.map((name, i) => [name, command.processedArgs[i]] as const)
  const input: Record<string, unknown> = { ...optionsOf(command), ...Object.fromEntries(positional) }
  for (const [name, value] of Object.entries(input)) if (value === undefined) delete input[name]
  // Handled for every command in watching.ts.
  delete input.watch
  if (!shape) return input
  try {
    return check(shape, input, '', { coerce: true })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const texts = (error.extras.details ?? []).map(({ path, message }) => {
      const name = path.split('/')[1] ?? ''
      const option = command.options.find(known => known.attributeName() === name)
      return `${option?.long ?? (names.includes(name) ? `<${name}>` : name)} ${message}`
    })
    throw new UsageError(texts.join('; '), { cause: error })
  }
}

/**
 * The operator's name, prompted for on a terminal where it is unset; undefined elsewhere: the account's name is used
 * then.
 */
async function promptForName({ yes, input }: Globals): Promise<string | undefined> {
  if (yes || !input || !process.stdin.isTTY || !process.stderr.isTTY) return undefined
  const prompts = await import('@inquirer/prompts')
  const message = 'Who acts, for the audit log? (OPERATOR_NAME sets it)'
  const validate = (text: string) => /^[^\p{C}]{1,64}$/u.test(text.trim()) || 'A name of at most 64 characters.'
  return (await prompts.input({ message, validate }, { output: process.stderr })).trim()
}

const canAsk = ({ input }: Globals): boolean => input && process.stdin.isTTY

async function confirm(question: string, globals: Globals): Promise<void> {
  if (globals.yes) return
  if (!canAsk(globals)) throw new CommandRefusal(`${question} There is no terminal to confirm on: repeat with --yes.`)
  // Loaded only for a prompt; on stderr, so that stdout carries the result alone.
  const prompts = await import('@inquirer/prompts')
  const agreed = await prompts.confirm({ message: question, default: false }, { output: process.stderr })
  if (!agreed) throw new CommandRefusal('Nothing was changed.')
}

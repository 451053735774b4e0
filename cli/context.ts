// What every command runs in: arguments become one checked input, the store is opened only for commands that
// need it and closed whatever happens, the result is printed. A command itself only says what it does.
import type { Command } from 'commander'
import { operatorName } from '../db/audit.ts'
import { readEnvironment } from '../db/process.ts'
import { openStore, type Store } from '../db/store.ts'
import type { Config } from '../schemas/config.ts'
import { ApiError } from '../schemas/errors.ts'
import type { Schema } from '../schemas/fields.ts'
import { check } from '../schemas/validator.ts'
import { print, type Show } from './output.ts'
import { Refusal, UsageError } from './refusals.ts'

/** What a command without database gets. */
export interface Context {
  config: Config
  /** The environment the configuration was read from, for processes a command starts. */
  env: NodeJS.ProcessEnv
  /** Who is at the keyboard, for the audit log. */
  actor: string
  json: boolean
  /** Returns when the operator agrees or --yes was given. Throws Refusal when not, or when nobody can be asked. */
  confirm(question: string): Promise<void>
  /** Tells the person what is going on; on stderr, and only on a terminal. */
  note(text: string): void
}

/** What a command with database gets. */
export interface Opened extends Context, Store {}

interface Globals {
  json?: boolean
  yes?: boolean
  input: boolean
}

export interface Verb<Result> {
  /** Shape of arguments and options together, by their names; checked before anything is opened. */
  input?: Schema
  /** How a person sees the result; without it fields and lists are shown as they are. */
  show?: Show<Result>
}

type Action = (...given: unknown[]) => Promise<void>

/**
 * The action of a command that works on the database: `run` gets the open store and one object of arguments
 * and options; what it returns is printed, as JSON with --json.
 */
export function withStore<Input, Result extends object>(
  run: (opened: Opened, input: Input) => Promise<Result>,
  verb: Verb<Result> = {}
): Action {
  return bare<Input, Result>(async (context, input) => {
    const store = await openStore(context.config, { name: 'cli' })
    try {
      return await run({ ...context, ...store }, input)
    } finally {
      await store.close()
    }
  }, verb)
}

/** The action of a command that opens by itself what it needs. */
export function bare<Input, Result extends object>(
  run: (context: Context, input: Input) => Promise<Result | undefined>,
  { input: shape, show }: Verb<Result> = {}
): Action {
  return async (...given) => {
    const command = given.at(-1) as Command
    const input = inputOf(command, shape) as Input
    const globals = command.optsWithGlobals() as unknown as Globals
    const { config, env } = readEnvironment()
    const json = globals.json === true
    const context: Context = {
      config,
      env,
      json,
      actor: operatorName(),
      confirm: question => confirm(question, globals),
      note: text => {
        if (process.stderr.isTTY && !json) process.stderr.write(`${text}\n`)
      }
    }
    const result = await run(context, input)
    if (result !== undefined) print(result, { json, show })
  }
}

/** Arguments and options as one object; a violated rule is told by the option's own name. */
function inputOf(command: Command, shape: Schema | undefined): object {
  const names = command.registeredArguments.map(argument => argument.name())
  const positional = names.map((name, i) => [name, command.processedArgs[i]] as const)
  const input: Record<string, unknown> = { ...command.opts(), ...Object.fromEntries(positional) }
  for (const [name, value] of Object.entries(input)) if (value === undefined) delete input[name]
  if (!shape) return input
  try {
    return check(shape, input, '', { coerce: true })
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const said = (error.extras.details ?? []).map(({ path, message }) => {
      const name = path.split('/')[1] ?? ''
      const option = command.options.find(known => known.attributeName() === name)
      return `${option?.long ?? (names.includes(name) ? `<${name}>` : name)} ${message}`
    })
    throw new UsageError(said.join('; '), { cause: error })
  }
}

async function confirm(question: string, { yes, input }: Globals): Promise<void> {
  if (yes) return
  if (!input || !process.stdin.isTTY) throw new Refusal(`${question} Nobody can be asked here: repeat with --yes.`)
  // Loaded only when somebody is asked; on stderr, so that stdout carries the result alone.
  const prompts = await import('@inquirer/prompts')
  const agreed = await prompts.confirm({ message: question, default: false }, { output: process.stderr })
  if (!agreed) throw new Refusal('Nothing was changed.')
}

// How a command ends when it does not succeed: one line on stderr for a person, an exit code for a script.
// 1 is a refusal or a failure, 2 is a wrong use of the command line. Never a stack, never an SQL text.
import { CommanderError } from 'commander'
import { systemErrorText } from '../../db/postgres/system-errors.ts'
import { ConfigError } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

/** The command cannot or may not do this; the message is a sentence for the operator. */
export class CommandRefusal extends Error {}

/** Arguments or options that do not fit; exit code 2. */
export class UsageError extends Error {}

/** A child process failed, and has printed why. */
export class ReportedAlready extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super()
    this.exitCode = exitCode
  }
}

interface CommandEnding {
  exitCode: number
  /** Without a line the command's output is complete. */
  line?: string
}

/** The message and the exit code of an error. */
export function endingOf(error: unknown): CommandEnding {
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? 0 : 2 }
  if (error instanceof ReportedAlready) return { exitCode: error.exitCode }
  if (error instanceof UsageError) return { exitCode: 2, line: `error: ${oneLine(error.message)}` }
  if (error instanceof ApiError) {
    return {
      exitCode: error.code === 'VALIDATION_FAILED' ? 2 : 1,
      line: `${error.code}: ${oneLine(error.message)}`
    }
  }
  if (error instanceof ConfigError) return { exitCode: 1, line: `Wrong configuration: ${oneLine(error.message)}` }
  if (error instanceof CommandRefusal) return { exitCode: 1, line: oneLine(error.message) }
  // Ctrl-C at a prompt.
  if (error instanceof Error && error.name === 'ExitPromptError') return { exitCode: 1, line: 'Nothing was changed.' }
  const refused = systemErrorText(error)
  return { exitCode: 1, line: refused === undefined ? `INTERNAL: ${unexpected(error)}` : sentence(refused) }
}

// knex puts the statement, with its bindings, before ' - '; PostgreSQL's message comes last.
function unexpected(error: unknown): string {
  if (!(error instanceof Error)) return oneLine(String(error))
  const { code } = error as { code?: unknown }
  const statement = error.message.lastIndexOf(' - ')
  const text = statement < 0 ? error.message : error.message.slice(statement + ' - '.length)
  return oneLine(`${text || error.name}${typeof code === 'string' && !text.includes(code) ? ` (${code})` : ''}`)
}

function sentence(text: string): string {
  return oneLine(`${text.charAt(0).toUpperCase()}${text.slice(1)}`)
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').trim()
}

// What the main files of all processes share: the environment, read once, and the signals that stop them.
import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { type Config, ConfigError, readConfig } from '../../schemas/config/config.ts'
import { findContradictions } from '../../schemas/config/contradictions.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { systemErrorText } from '../postgres/system-errors.ts'
import { within } from '../postgres/within.ts'
import type { Log } from './log.ts'

/**
 * The configuration of this process, from the environment and a `.env` file where there is one (the
 * environment wins), and the environment itself. Throws ConfigError naming a wrong value.
 */
export function readEnvironment(): { config: Config; env: NodeJS.ProcessEnv } {
  for (const [name, value] of Object.entries(readEnvFile())) process.env[name] ??= value
  return { config: readConfig(process.env), env: process.env }
}

/**
 * The settings in the `.env` file of this directory; every process of ours reads it. Throws ConfigError where it cannot be read, or is in
 * UTF-16, as some editors write it: Node's reader would find no setting in it, nor the first one behind a byte order mark.
 */
export function readEnvFile(): Record<string, string | undefined> {
  if (!existsSync('.env')) return {}
  let bytes: Buffer
  try {
    bytes = readFileSync('.env')
  } catch (cause) {
    throw new ConfigError(`the .env file: ${systemErrorText(cause) ?? (cause as Error).message}`, { cause })
  }
  if (bytes.includes(0)) throw new ConfigError('the .env file is not text in UTF-8: save it as such')
  return parseEnv(bytes.toString('utf8').replace(/^\uFEFF/, ''))
}

/** The configuration of a process; a wrong value ends it with one line that names it, exit code 78 (EX_CONFIG). */
export function loadEnvironment(name: 'api' | 'worker'): Config {
  try {
    const { config } = readEnvironment()
    const [refused] = findContradictions(config, name).filter(({ severity }) => severity === 'refuse')
    if (refused) throw new ConfigError(`${refused.found}; ${refused.advice}`)
    return config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`Wrong configuration: ${error.message}\n`)
    process.exit(78)
  }
}

/** Logs the settings that do not work together although the process can start. */
export function warnOfSettings(config: Config, name: 'api' | 'worker', log: Log): void {
  for (const { found, advice } of findContradictions(config, name)) log.warn({ advice }, found)
}

/**
 * Collects garbage when the heap has grown by two fifths over the live size: thousands of short requests or contract updates a
 * second leave mainly garbage, and V8's default lets more of it accumulate. The heap's upper bound stays. Called once all modules
 * are loaded: V8 does not use cached code that was compiled under other flags, and programs without this flag share the cache.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--heap-growing-percent=40')
}

const HARD_STOP_MS = 25_000
const LAST_WORDS_MS = 100

// npm forwards SIGTERM to its child: a signal to the whole process group arrives twice within milliseconds.
const SAME_REQUEST_MS = 250

/**
 * Why a process cannot start, in one line for the operator, and its exit code: 78 (EX_CONFIG) for a wrong setting, else
 * 1. Undefined for an error that is unexpected at the start, which deserves its stack.
 */
function startFailure(error: unknown): { line: string; exitCode: number } | undefined {
  if (error instanceof ConfigError) return { line: `Wrong configuration: ${error.message}`, exitCode: 78 }
  const text = error instanceof ApiError && error.code === 'UNAVAILABLE' ? error.message : systemErrorText(error)
  return text === undefined ? undefined : { line: `Cannot start: ${text}`, exitCode: 1 }
}

// Before `announceReady` the person who started the process reads its errors, afterwards the log does.
let started = false

/** Something to end before the process does. */
interface ProcessEnding {
  /** For the log. */
  name: string
  end(): Promise<unknown>
  /** When it is given up, in milliseconds since the first step; less than 25 s, or the hard end comes first. */
  untilMs: number
}

/** Notifies the parent process, where it has a channel to this one, that the work can begin. */
export function announceReady(facts: { address?: string } = {}): void {
  started = true
  // With a callback, so that a parent that is gone by now is no error of ours; `stopWithParent` notices.
  if (process.connected) process.send?.({ ready: true, ...facts }, () => {})
}

/** Calls `stop` once the process that started this one and kept a channel to it is gone, however it ended. */
export function stopWithParent(stop: () => void): void {
  if (!process.channel) return
  process.once('disconnect', stop)
  // The channel must not keep a process alive that has nothing else to do.
  process.channel.unref()
}

const PARENT_CHECK_MS = 1000

const underNpm = () => Boolean(process.env.npm_lifecycle_event)

/** Calls `stop` once npm is gone that started this process: killed, it hands no signal on, and the port would stay taken. */
function stopWithNpm(stop: () => void): void {
  if (!underNpm()) return
  const parent = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(timer)
    stop()
  }, PARENT_CHECK_MS)
  timer.unref()
}

/**
 * Resolves on the first SIGTERM or SIGINT, or when the process that started this one is gone. A second signal,
 * or 25 s, ends the process hard, which is just as safe for orders. Also ends it with one line when it cannot start.
 */
export function stopOn(log: Log): Promise<void> {
  process.on('uncaughtException', error => {
    const failure = started ? undefined : startFailure(error)
    if (failure) {
      process.stderr.write(`${failure.line.replaceAll(/\s*\n\s*/g, ' ')}\n`)
      process.exit(failure.exitCode)
    }
    // Neither as 'fatal' nor by an immediate exit: both make the logger flush its buffer synchronously, and with the
    // reader of the log gone it would retry for ever.
    log.error({ err: error }, 'stopped by an unexpected error')
    setTimeout(() => process.exit(1), LAST_WORDS_MS)
  })
  return new Promise(resolve => {
    let requestedAt: number | undefined
    const stop = (why: string) => {
      if (requestedAt !== undefined) {
        if (underNpm() && performance.now() < requestedAt + SAME_REQUEST_MS) return
        process.exit(1)
      }
      requestedAt = performance.now()
      log.info({ why }, 'stopping')
      setTimeout(() => process.exit(1), HARD_STOP_MS).unref()
      resolve()
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop)
    const stopAlone = () => {
      if (requestedAt === undefined) stop('parent gone')
    }
    stopWithParent(stopAlone)
    stopWithNpm(stopAlone)
  })
}

/**
 * Ends one thing after the other, each within its time-out, and then the process with exit code 0. One that an
 * unresponsive dependency keeps from ending is logged and left, which is as safe as a kill.
 */
export async function endInOrder(log: Log, endings: ProcessEnding[]): Promise<void> {
  const startedAt = performance.now()
  const left: string[] = []
  for (const { name, end, untilMs } of endings) {
    await within(Math.max(0, untilMs - (performance.now() - startedAt)), end()).catch((error: unknown) => {
      log.warn({ err: error, part: name }, 'a part did not end in order')
      left.push(name)
    })
  }
  if (left.length > 0) log.warn({ left }, 'stopped; what did not end in time is left as it is')
  else log.info('stopped')
  // A connection that the other side never closes would keep the process until the hard end.
  setTimeout(() => process.exit(0), LAST_WORDS_MS).unref()
}

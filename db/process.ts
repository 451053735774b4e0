// What the main files of all processes share: the environment, read once, and the signals that stop them.
import { existsSync } from 'node:fs'
import { type Config, ConfigError, readConfig } from '../schemas/config.ts'
import type { Log } from './log.ts'

/**
 * The configuration of this process, from the environment and a `.env` file where there is one (the
 * environment wins), and the environment itself. Throws ConfigError naming a wrong value.
 */
export function readEnvironment(): { config: Config; env: NodeJS.ProcessEnv } {
  if (existsSync('.env')) process.loadEnvFile('.env')
  return { config: readConfig(process.env), env: process.env }
}

/** The configuration; a wrong value ends the process with one line that names it, exit code 78 (EX_CONFIG). */
export function loadEnvironment(): Config {
  try {
    return readEnvironment().config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`Wrong configuration: ${error.message}\n`)
    process.exit(78)
  }
}

const HARD_STOP_MS = 25_000

/**
 * Resolves on the first SIGTERM or SIGINT. A second one, or 25 s, ends the process hard, which is just as
 * safe for orders. Also ends it with one line when opening fails.
 */
export function stopOn(log: Log): Promise<void> {
  process.on('uncaughtException', error => {
    if (error instanceof ConfigError) process.stderr.write(`Wrong configuration: ${error.message}\n`)
    else log.fatal({ err: error }, 'stopped by an unexpected error')
    process.exit(error instanceof ConfigError ? 78 : 1)
  })
  return new Promise(resolve => {
    let asked = false
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(1)
        asked = true
        log.info({ signal }, 'stopping')
        setTimeout(() => process.exit(1), HARD_STOP_MS).unref()
        resolve()
      })
    }
  })
}

// --watch: a reading command run again and again until Ctrl-C, on a cleared screen where there is a terminal.
import { type Command, InvalidArgumentError } from 'commander'

const EVERY_SECONDS = 2
const CLEAR = '\u001b[H\u001b[2J\u001b[3J'

/** Adds --watch to a command that only reads. */
export function watchable(command: Command): Command {
  return command.option(
    '--watch [seconds]',
    'show it again every so many seconds (2), until Ctrl-C',
    (given: string) => {
      if (!/^\d{1,4}$/.test(given) || Number(given) < 1) throw new InvalidArgumentError('It takes 1 to 9999 seconds.')
      return Number(given)
    }
  )
}

/** The seconds between two rounds; undefined for a single round. */
export function pauseOf(command: Command): number | undefined {
  const { watch } = command.opts() as { watch?: number | true }
  return watch === true ? EVERY_SECONDS : watch
}

/** Calls `round` again and again until Ctrl-C; its errors end it. */
export async function repeat(round: () => Promise<void>, seconds: number): Promise<void> {
  const requested = new AbortController()
  const stop = () => requested.abort()
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  try {
    while (!requested.signal.aborted) {
      await round()
      await pause(seconds * 1000, requested.signal)
    }
  } finally {
    process.off('SIGINT', stop)
    process.off('SIGTERM', stop)
  }
}

/** What is written before a round: an empty screen on a terminal, the time elsewhere. */
export function heading(): string {
  const at = new Date().toISOString().replace(/\.\d+Z$/, 'Z')
  return process.stdout.isTTY ? `${CLEAR}${at}, Ctrl-C ends it\n\n` : `${at}\n`
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
}

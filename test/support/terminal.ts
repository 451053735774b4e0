// A real terminal for tests: the operator's program in a tmux window of a given size.
import { execFile, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onClose, until } from './harness.ts'

const run = promisify(execFile)

// The program itself may take long to start beside many others. Whoever waits in vain must report it before the time of the whole file is
// over, which is not longer on a busy machine; and what one screen has not shown, those after it may lack as well.
const SHOWN_MS = 90_000
const SHOWN_AFTER_A_MISS_MS = 5000
let missed = false

/** Whether tmux is installed here. */
export const hasTerminal = spawnSync('tmux', ['-V']).status === 0

interface Terminal {
  /** What the screen shows, one string a line, without colours. */
  screen(): Promise<string[]>
  /** The same with the escape sequences of its colours. */
  coloured(): Promise<string>
  /** Waits until the screen shows all of these, and returns it. */
  shows(...wanted: (string | RegExp)[]): Promise<string[]>
  /** Presses keys one after the other; names like Enter, Escape, Up, C-c. */
  press(...keys: string[]): Promise<void>
  /** Types text as it is. */
  type(text: string): Promise<void>
  resize(columns: number, rows: number): Promise<void>
}

/** Runs `operator …args` in a terminal with this environment, followed by a line with how it ended. */
export async function openTerminal(
  env: Record<string, string>,
  { args, columns, rows }: { args: string[]; columns: number; rows: number }
): Promise<Terminal> {
  const dir = await mkdtemp(join(tmpdir(), 'operator-terminal-'))
  const tmux = (...words: string[]) => run('tmux', ['-S', join(dir, 'socket'), '-f', '/dev/null', ...words])
  const name = `t${randomBytes(4).toString('hex')}`
  const settings = Object.entries({ LANG: 'C.UTF-8', OPERATOR_NAME: 'tester', ...env }).map(
    ([key, value]) => `${key}=${value}`
  )
  const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`
  const kept = ['PATH', 'HOME', 'TERM'].map(key => `"${key}=$${key}"`)
  const program = [process.execPath, 'cli/main.ts', ...args].map(quote).join(' ')
  const line = `echo BEFORE; env -i ${kept.join(' ')} ${settings.map(quote).join(' ')} ${program}; echo ENDED $?; exec cat`
  await tmux('-u', 'new-session', '-d', '-s', name, '-x', String(columns), '-y', String(rows), 'sh', '-c', line)
  onClose(async () => {
    await tmux('kill-server').catch(() => {})
    await rm(dir, { recursive: true, force: true })
  })
  const screen = async () => (await tmux('capture-pane', '-p', '-t', name)).stdout.replace(/\n$/, '').split('\n')
  return {
    screen,
    coloured: async () => (await tmux('capture-pane', '-e', '-p', '-t', name)).stdout,
    async shows(...wanted) {
      let last: string[] = []
      const end = performance.now() + (missed ? SHOWN_AFTER_A_MISS_MS : SHOWN_MS)
      try {
        return await until(
          'the screen',
          async () => {
            last = await screen()
            const text = last.join('\n')
            if (wanted.every(part => (typeof part === 'string' ? text.includes(part) : part.test(text)))) return last
            if (performance.now() > end) throw new Error('waited for long enough')
            return undefined
          },
          SHOWN_MS
        )
      } catch {
        missed = true
        throw new Error(`The screen never showed ${wanted.join(' and ')}:\n${last.join('\n')}`)
      }
    },
    press: async (...keys) => {
      for (const key of keys) await tmux('send-keys', '-t', name, key)
    },
    type: async text => void (await tmux('send-keys', '-l', '-t', name, text)),
    resize: async (x, y) => void (await tmux('resize-window', '-t', name, '-x', String(x), '-y', String(y)))
  }
}

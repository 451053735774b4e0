// The terminal's second screen: entered for the console and left again however it ends.
import { render } from 'ink'
import { createElement } from 'react'
import type { Opened } from '../terminal/context.ts'
import { App, type RunningAction } from './app.ts'

const ENTER = '\u001b[?1049h\u001b[H'
const LEAVE = '\u001b[?1049l\u001b[?25h'

/** Shows the console until the operator quits, Ctrl-C and signals included; a running command completes first. */
export async function show(opened: Opened): Promise<void> {
  const underWay: { current?: RunningAction } = {}
  const leave = () => process.stdout.write(LEAVE)
  process.stdout.write(ENTER)
  process.once('exit', leave)
  const app = render(createElement(App, { opened, underWay }), { exitOnCtrlC: true })
  const stop = () => app.unmount()
  const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const
  for (const signal of signals) process.once(signal, stop)
  try {
    await app.waitUntilExit()
  } finally {
    for (const signal of signals) process.off(signal, stop)
    process.off('exit', leave)
    leave()
    underWay.current?.abandon()
    await underWay.current?.done
  }
}

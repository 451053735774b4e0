// The keys of the console. Each key sees the state that the previous one left; what it does depends on the mode.
import { setTimeout } from 'node:timers/promises'
import { type Key, useInput } from 'ink'
import { useEffect, useRef } from 'react'
import type { Mode } from './frame.ts'
import { clean } from './text.ts'

const TYPED_LONGEST = 500
/** A key that has drawn nothing after this long changed nothing, and the next one need not wait. */
const UNCHANGED_MS = 50
/** How long a key waits for a place to be read. */
const PLACE_READ_MS = 1000

type ModeOf<Kind extends Mode['kind']> = Extract<Mode, { kind: Kind }>

/** Calls `onKey` for each key, one after another: they may come faster than the screen is drawn. */
export function useKeys(
  onKey: (input: string, key: Key) => void,
  { mode, reading }: { mode: Mode; reading: boolean }
): void {
  const latest = useRef({ onKey, reading })
  latest.current = { onKey, reading }
  const drawnNext = useRef<(() => void)[]>([])
  useEffect(() => {
    for (const resolve of drawnNext.current.splice(0)) resolve()
  })
  const pressed = useRef(Promise.resolve())
  useInput((input, key) => {
    // A key held down arrives as several at once; anything else in one piece was pasted.
    const several = input.length > 1 && new Set(input).size === 1 && mode.kind === 'browse'
    for (const one of several ? input : [input]) {
      pressed.current = pressed.current.then(async () => {
        // A place that was just opened has no keys before it is read.
        const patience = Date.now() + PLACE_READ_MS
        while (latest.current.reading && Date.now() < patience) await setTimeout(10)
        latest.current.onKey(one, key)
        await Promise.race([new Promise<void>(resolve => drawnNext.current.push(resolve)), setTimeout(UNCHANGED_MS)])
      })
    }
  })
}

/** Only the single key y agrees; pasted text does not. */
export function confirmKey({ decide }: ModeOf<'confirm'>, input: string, key: Key): void {
  if (input === 'y' || input === 'Y') decide(true)
  else if (input === 'n' || input === 'N' || key.escape) decide(false)
}

/** A key of a text that is being typed; what is pasted may have the end of its line in it. */
export function typeKey(mode: ModeOf<'type'>, setMode: (mode: Mode) => void, input: string, key: Key): void {
  const [typed = '', ...more] = input.split(/[\r\n]/)
  if (key.escape) setMode({ kind: 'browse' })
  else if (key.backspace || key.delete) setMode({ ...mode, text: [...mode.text].slice(0, -1).join('') })
  else if (key.return) mode.use(mode.text.trim())
  else if (!key.ctrl && !key.meta && !key.tab && !key.upArrow && !key.downArrow) {
    const text = (mode.text + clean(typed)).slice(0, TYPED_LONGEST)
    if (more.length > 0) mode.use(text.trim())
    else setMode({ ...mode, text })
  }
}

/** By how many rows a key moves the cursor; undefined for any other key. */
export function rowsMoved(input: string, key: Key, { page, all }: { page: number; all: number }): number | undefined {
  if (key.upArrow || input === 'k') return -1
  if (key.downArrow || input === 'j') return 1
  if (key.pageUp) return -page
  if (key.pageDown) return page
  if (key.home) return -all
  return key.end ? all : undefined
}

// The console's event loop: reads one view once a second without overlap, turns keys (keys.ts) into moves, and runs
// commands, whose confirmation is a line of the screen.
import { Box, type Key, Text, useApp, useStdout } from 'ink'
import { createElement as h, useCallback, useEffect, useRef, useState } from 'react'
import { readShortly } from '../../db/platform/console.ts'
import type { Opened } from '../terminal/context.ts'
import { CommandRefusal, endingOf } from '../terminal/refusals.ts'
import { analytics } from './analytics.ts'
import { doubt } from './doubt.ts'
import { frame, type Mode } from './frame.ts'
import { confirmKey, rowsMoved, typeKey, useKeys } from './keys.ts'
import { money } from './money.ts'
import { orders } from './orders.ts'
import { overview } from './overview.ts'
import { partners } from './partners.ts'
import { queues } from './queues.ts'
import { clock } from './text.ts'
import type { Drawn, KeyAction, Move, Size, View, ViewPosition } from './view.ts'

const views = [overview, partners, orders, doubt, queues, money, analytics] as View<unknown>[]

const REFRESH_MS = 1000
/** A read that takes longer is reported. */
const PATIENCE_MS = 3000

/** A running command; `abandon` declines its confirmation. */
export interface RunningAction {
  done: Promise<void>
  abandon(): void
}

interface ActionUnderWay {
  current?: RunningAction
}

interface Reading {
  /** The place that was read. */
  key: string
  data: unknown
  at: Date
}

/** The console. `underWay` holds the running command, which the caller awaits after the screen has closed. */
export function App({ opened, underWay }: { opened: Opened; underWay: ActionUnderWay }) {
  const { exit } = useApp()
  const size = useSize()
  const now = useNow()
  const [tab, setTab] = useState(0)
  const [places, setPlaces] = useState<ViewPosition[]>(() => views.map(() => ({ filter: '', search: '' })))
  const [mode, setMode] = useState<Mode>({ kind: 'browse' })
  const { message, changes, start, clearMessage } = useCommands({ opened, underWay, setMode })
  const place = places[tab] as ViewPosition
  const view = views[tab] as View<unknown>
  const { reading, trouble } = useReading({ opened, view, tab, place, changes, now })

  const drawn: Drawn = reading
    ? view.draw(reading.data, place, size)
    : { head: [], lines: [{ text: trouble ? '' : 'Reading…' }], plain: true }
  const ids = drawn.lines.flatMap(({ id }) => (id === undefined ? [] : [id]))
  const chosen = place.chosen !== undefined && ids.includes(place.chosen) ? place.chosen : ids[0]
  const actions = reading ? view.actions(reading.data, { ...place, chosen }) : []

  const go = (changed: Partial<ViewPosition>) =>
    setPlaces(all => all.map((each, i) => (i === tab ? { ...each, ...changed } : each)))

  const act = ({ place: changed, input, run }: Move) => {
    if (changed) go(changed)
    if (input) {
      const { label, initial: text = '', use } = input
      const used = (typed: string) => {
        setMode({ kind: 'browse' })
        act(use(typed))
      }
      setMode({ kind: 'type', label, text, use: used })
    }
    if (run) start(run)
  }

  const press = (input: string, key: Key) => {
    clearMessage()
    const page = Math.max(1, size.rows - CHROME - drawn.head.length)
    const by = rowsMoved(input, key, { page, all: ids.length })
    if (input === 'q') exit()
    else if (key.tab) setTab((tab + (key.shift ? views.length - 1 : 1)) % views.length)
    else if (/^[1-9]$/.test(input) && Number(input) <= views.length) setTab(Number(input) - 1)
    else if (by !== undefined) {
      const at = Math.max(0, chosen === undefined ? 0 : ids.indexOf(chosen))
      // Text scrolls until its end is on the screen, and no further.
      const last = drawn.plain ? Math.max(0, ids.length - page) : ids.length - 1
      go({ chosen: ids[Math.max(0, Math.min(last, at + by))] })
    } else if (key.escape && place.opened) go(back(place))
    else {
      const action = actions.find((known: KeyAction) => known.key === (key.return ? 'enter' : input))
      if (action) act(action.press())
    }
  }
  useKeys(
    (input, key) => {
      if (mode.kind === 'confirm') confirmKey(mode, input, key)
      else if (mode.kind === 'type') typeKey(mode, setMode, input, key)
      else if (mode.kind === 'browse') press(input, key)
    },
    { mode, reading: !reading && !trouble }
  )

  const lines = frame(
    {
      tabs: views.map(({ name }) => name),
      tab,
      now,
      trouble: trouble && `${trouble}${reading ? ` Shown is what was known at ${clock(reading.at)}.` : ''}`,
      drawn,
      chosen,
      mode,
      message,
      actions,
      opened: place.opened !== undefined
    },
    size
  )
  return h(
    Box,
    { flexDirection: 'column', width: size.columns },
    lines.map((line, i) => h(Text, { key: i, wrap: 'truncate-end' }, line === '' ? ' ' : line))
  )
}

/** Lines around the view's own. */
const CHROME = 5

function back({ opened, from, left }: ViewPosition): Partial<ViewPosition> {
  // Two steps at most: from an order to its partner, and from there to the list.
  return { opened: from, from: undefined, chosen: from === undefined ? left : undefined, left: from && opened }
}

/** Runs commands one at a time; `changes` counts those that have ended. */
function useCommands({
  opened,
  underWay,
  setMode
}: {
  opened: Opened
  underWay: ActionUnderWay
  setMode: (mode: Mode) => void
}) {
  const [message, setMessage] = useState<{ text: string; bad: boolean }>()
  const [changes, setChanges] = useState(0)

  const start = (run: NonNullable<Move['run']>) => {
    const note = (text: string) => setMode({ kind: 'busy', text })
    let refuse = () => {}
    const confirm = (question: string) =>
      new Promise<void>((resolve, reject) => {
        refuse = () => reject(new CommandRefusal('Nothing was changed.'))
        const decide = (agreed: boolean) => {
          note('Working…')
          if (agreed) resolve()
          else refuse()
        }
        setMode({ kind: 'confirm', question, decide })
      })
    note('Working…')
    const done = run({ ...opened, confirm, note })
      .then(
        text => setMessage({ text, bad: false }),
        error => setMessage({ text: endingOf(error).line ?? 'It failed.', bad: true })
      )
      .finally(() => {
        underWay.current = undefined
        setMode({ kind: 'browse' })
        setChanges(count => count + 1)
      })
    underWay.current = { done, abandon: () => refuse() }
  }
  return { message, changes, start, clearMessage: () => setMessage(undefined) }
}

/** The latest data of a place, and the error of a newer read that failed. Reads never overlap. */
function useReading({
  opened,
  view,
  tab,
  place,
  changes,
  now
}: {
  opened: Opened
  view: View<unknown>
  tab: number
  place: ViewPosition
  changes: number
  now: Date
}): { reading?: Reading; trouble?: string } {
  const { db, config } = opened
  const { opened: shown, filter, search } = place
  const key = JSON.stringify([tab, shown, filter, search])
  const [views, setViews] = useState<Record<number, Reading>>({})
  const [failure, setFailure] = useState<string>()
  const known = useRef<Record<number, Reading>>({})
  const reading = useRef(Promise.resolve())
  const since = useRef<number | undefined>(undefined)

  const turn = useCallback(async (): Promise<void> => {
    since.current = Date.now()
    const last = known.current[tab]
    const before = last?.key === key ? last.data : undefined
    try {
      const data = await readShortly(db, trx => view.read(trx, { opened: shown, filter, search }, { config, before }))
      known.current = { ...known.current, [tab]: { key, data, at: new Date() } }
      setViews(known.current)
      setFailure(undefined)
    } catch (error) {
      setFailure(endingOf(error).line)
    } finally {
      since.current = undefined
    }
  }, [db, config, view, tab, key, shown, filter, search])

  // biome-ignore lint/correctness/useExhaustiveDependencies: a command's changes are read at once
  useEffect(() => {
    let stopped = false
    let timer: NodeJS.Timeout | undefined
    const next = () => {
      reading.current = reading.current.then(async () => {
        if (!stopped) await turn()
        if (!stopped) timer = setTimeout(next, REFRESH_MS)
      })
    }
    next()
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }, [turn, changes])

  const waited = since.current === undefined ? 0 : now.getTime() - since.current
  const slow = waited > PATIENCE_MS ? `The database has not responded for ${Math.round(waited / 1000)} s.` : undefined
  const latest = views[tab]?.key === key ? views[tab] : undefined
  return {
    reading: latest,
    trouble: slow ?? (failure && `The database cannot be read: ${failure}.`.replace('..', '.'))
  }
}

function useNow(): Date {
  const [now, setNow] = useState(() => new Date())
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}

function useSize(): Size {
  const { stdout } = useStdout()
  const [size, setSize] = useState<Size>({ columns: stdout.columns || 80, rows: stdout.rows || 24 })
  useEffect(() => {
    const resized = () => setSize({ columns: stdout.columns || 80, rows: stdout.rows || 24 })
    stdout.on('resize', resized)
    return () => void stdout.off('resize', resized)
  }, [stdout])
  return size
}

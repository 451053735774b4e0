// The frame around every view: the tabs above, errors, the visible part of the view's lines, the confirmation, and the
// keys below. Plain lines in, plain lines out; none is wider than the terminal.
import { cut, lastColumns, tones, widthOf, wrap } from './text.ts'
import { type Drawn, type KeyAction, MARK, type Size } from './view.ts'

/** What the console does with the next key. */
export type Mode =
  | { kind: 'browse' }
  | { kind: 'type'; label: string; text: string; use(text: string): void }
  | { kind: 'confirm'; question: string; decide(agreed: boolean): void }
  | { kind: 'busy'; text: string }

interface Framed {
  tabs: string[]
  tab: number
  now: Date
  /** Why what is shown may be old. */
  trouble?: string
  drawn: Drawn
  chosen?: string
  mode: Mode
  /** How the last command ended. */
  message?: { text: string; bad: boolean }
  actions: KeyAction[]
  opened: boolean
}

const QUESTION_LINES = 4

/** The whole screen but its last line, which stays free: a full one would make the terminal scroll. */
export function frame(framed: Framed, size: Size): string[] {
  const width = size.columns
  const above = [header(framed, width), framed.trouble ? tones.bad(cut(`! ${framed.trouble}`, width)) : '']
  const below = ['', ...prompt(framed, width), foot(framed, width)]
  const room = Math.max(1, size.rows - 1 - above.length - below.length)
  const head = framed.drawn.head.slice(0, Math.max(0, room - 3))
  const body = scrolled(framed, room - head.length, width)
  return [...above, ...head, ...body, ...below]
}

function header({ tabs, tab, now }: Framed, width: number): string {
  const time = `${now.toISOString().slice(11, 19)} UTC`
  // The brackets mark the current tab on terminals without colours.
  const named = tabs.map((name, i) => (i === tab ? `[${i + 1} ${name}]` : ` ${i + 1} ${name} `))
  const used = named.join('').length
  if (used > width) return cut(named[tab] as string, width)
  const coloured = named.map((name, i) => (i === tab ? tones.title(tones.link(name)) : name)).join('')
  const gap = width - used - time.length
  return gap > 0 ? coloured + ' '.repeat(gap) + tones.quiet(time) : coloured
}

/** The lines that fit, with the row under the cursor among them. */
function scrolled({ drawn, chosen }: Framed, room: number, width: number): string[] {
  const { lines, plain } = drawn
  const at = Math.max(
    0,
    lines.findIndex(({ id }) => id !== undefined && id === chosen)
  )
  const last = Math.max(0, lines.length - room)
  const top = Math.min(last, plain ? at : Math.max(0, at - Math.floor(room / 2)))
  const shown = lines.slice(top, top + room).map(({ text, id }) => {
    if (plain || id === undefined) return text
    return id === chosen ? `${tones.link('❯')} ${tones.title(text)}` : `${' '.repeat(MARK)}${text}`
  })
  if (lines.length === 0) shown.push(tones.quiet(cut(`${' '.repeat(MARK)}None.`, width)))
  while (shown.length < room) shown.push('')
  return shown
}

function prompt({ mode, message }: Framed, width: number): string[] {
  switch (mode.kind) {
    case 'type': {
      const label = cut(mode.label, Math.floor(width / 2))
      // The end of a long text is what is being typed.
      const room = Math.max(1, width - widthOf(label) - 3)
      return [`${tones.title(label)}: ${lastColumns(mode.text, room)}▏`]
    }
    case 'confirm':
      return wrap(`${mode.question} [y/n]`, width, QUESTION_LINES).map(line => tones.warn(line))
    case 'busy':
      return [tones.quiet(cut(mode.text, width))]
    default:
      if (!message) return []
      return wrap(message.text, width, 2).map(line => (message.bad ? tones.bad : tones.good)(line))
  }
}

function foot({ mode, actions, opened, tabs, drawn }: Framed, width: number): string {
  const keys: [string, string][] = []
  if (mode.kind === 'type') keys.push(['enter', 'done'], ['esc', 'cancel'])
  else if (mode.kind === 'confirm') keys.push(['y', 'yes'], ['n', 'no'])
  else {
    for (const { key, label } of actions) keys.push([key, label])
    if (opened) keys.push(['esc', 'back'])
    if (drawn.lines.length > 1) keys.push(['↑↓', drawn.plain ? 'scroll' : 'move'])
    keys.push([`1–${tabs.length}`, 'view'], ['q', 'quit'])
  }
  const plain = keys.map(([key, label]) => `${key} ${label}`).join('  ')
  if (plain.length > width) return cut(plain, width)
  return keys.map(([key, label]) => `${tones.title(key)} ${tones.quiet(label)}`).join('  ')
}

// The table of `hostile`: the p99 of all turns of a side together, and beside it the interval of the ratio.
import { type Answered, type Attack, CALLS_A_SECOND } from './attacks.ts'
import { print, verdict } from './report.ts'
import { ms, spread } from './stage.ts'

export const ORDERS_A_SECOND = 50
export const READS_A_SECOND = 150
const goals = { order: 1.5, me: 2, memoryMb: 250 }
const DRAWS = 500

/** What was measured in one turn, alone or beside; times in milliseconds. */
export interface Turn {
  orders: number[]
  reads: number[]
  /** 99th percentile of how late the event loop of the api was. */
  loopMs: number
  /** Seconds of CPU by process. */
  cpu: Record<string, number>
  seconds: number
}

/** Everything about one attack. */
export interface Found {
  alone: Turn[]
  beside: Turn[]
  /** Beside a bare server that takes as much CPU as the attack took of the service. */
  sharing: Turn[]
  /** Requests of the other partner that got another status than 200. */
  refused: number
  memoryMb: number
  answered: Answered
}

const head = [
  'the hostile partner sends',
  'order alone p50 / p99',
  'beside',
  'p99 (90 % interval)',
  'me alone p50 / p99',
  'beside',
  'p99 (90 % interval)',
  'me beside as much CPU elsewhere',
  'p99 (90 % interval)',
  'refused',
  'api at most',
  'it is answered',
  'loop of the api p99, alone / beside',
  'cores used, alone / beside',
  'goals'
]

/** Prints an attack's figures in one line. */
export function printOne(attack: Attack, so: Found): void {
  const { cells } = figures(attack, so)
  console.log(head.map((title, at) => `${title} ${cells[at]}`).join(' | '))
}

/** Prints all figures as a table, some of the refused requests, and whether the goals were met. */
export function printAll(
  found: Map<Attack, Found>,
  { seconds, rounds, refused, left }: { seconds: number; rounds: number; refused: string[]; left: number }
): void {
  const all = [...found].map(([attack, so]) => ({ ...figures(attack, so), name: attack.name }))
  print(
    `A partner (${ORDERS_A_SECOND} tick orders and ${READS_A_SECOND} GET /v1/me a second) alone and beside a hostile one (${CALLS_A_SECOND} calls a second unless the case is heavier); at most ${rounds} turns of ${seconds} s each`,
    head,
    all.map(({ cells }) => cells)
  )
  for (const each of [...new Set(refused)].slice(0, 5)) console.log(`refused: ${each}`)
  const broken = all.filter(({ good }) => !good).map(({ name }) => name)
  const goal = `order p99 ≤ ${goals.order} ×, me p99 ≤ ${goals.me} ×, nothing refused, api < ${goals.memoryMb} MB`
  const without = left > 0 ? `, ${left} attacks not measured` : ''
  console.log(
    verdict(`${goal}${broken.length > 0 ? ` (not: ${broken.join('; ')})` : ''}${without}`, broken.length + left === 0)
  )
}

/** The cells of an attack's row, in the order of `head`, and whether it kept to the goals. */
function figures({ name, control }: Attack, so: Found): { cells: string[]; good: boolean } {
  const { alone, beside, refused, memoryMb, answered } = so
  const [order, me] = [compare(alone, beside, turn => turn.orders), compare(alone, beside, turn => turn.reads)]
  const sharing = control ? undefined : compare(alone, so.sharing, turn => turn.reads)
  const good = order.ratio <= goals.order && me.ratio <= goals.me && refused === 0 && memoryMb < goals.memoryMb
  const cells = [
    name,
    ...order.cells,
    ...me.cells,
    ...(sharing?.cells.slice(1) ?? ['', '']),
    String(refused),
    `${memoryMb.toFixed(0)} MB`,
    Object.entries(answered)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', '),
    `${ms(mean(alone.map(turn => turn.loopMs)))} / ${ms(mean(beside.map(turn => turn.loopMs)))}`,
    Object.keys(beside[0]?.cpu ?? {})
      .map(who => `${who} ${cores(alone, who)} / ${cores(beside, who)}`)
      .join(', '),
    control ? 'a control' : good ? 'met' : 'MISSED'
  ]
  return { cells, good: good || control === true }
}

/** p99 beside another partner in relation to p99 alone, and the verdict on both. */
function compare(alone: Turn[], beside: Turn[], times: (turn: Turn) => number[]): { ratio: number; cells: string[] } {
  const [before, after] = [alone.map(times), beside.map(times)]
  const [a, b] = [spread(before.flat()), spread(after.flat())]
  const ratio = b.p99 / a.p99
  const drawn = Array.from({ length: DRAWS }, () => p99(again(after)) / p99(again(before))).sort((x, y) => x - y)
  const [low, high] = [0.05, 0.95].map(share => (drawn[Math.floor(DRAWS * share)] as number).toFixed(2))
  const cells = [`${ms(a.p50)} / ${ms(a.p99)}`, `${ms(b.p50)} / ${ms(b.p99)}`, `${ratio.toFixed(2)} × (${low}–${high})`]
  return { ratio, cells }
}

/** Cores that the service used more in the latest turn of the attack than alone on the average. */
export function takenCores({ alone, beside }: Found): number {
  const used = ({ cpu, seconds }: Turn) => Object.values(cpu).reduce((sum, value) => sum + value, 0) / seconds
  const latest = beside.at(-1)
  return latest ? Math.max(0, used(latest) - mean(alone.map(used))) : 0
}

const p99 = (turns: number[][]) => spread(turns.flat()).p99
/** As many turns, each drawn from all of them. */
const again = (turns: number[][]) => turns.map(() => turns[Math.floor(Math.random() * turns.length)] as number[])
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const cores = (turns: Turn[], who: string) =>
  mean(turns.map(({ cpu, seconds }) => (cpu[who] ?? 0) / seconds)).toFixed(2)

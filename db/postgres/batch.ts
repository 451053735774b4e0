// Many callers, one statement: what arrives while a statement is under way travels together in the next.
// Under load this turns a round trip per request into one per group; alone it adds one turn of the loop.
import { Turns } from '../platform/turns.ts'

interface BatchOptions<Item> {
  /** Items in one group at most. */
  max?: number
  /** Groups under way at once. */
  concurrency?: number
  /** Items waiting at most; beyond it a caller is refused at once. */
  waiting?: number
  /**
   * The owner of an item: where more wait than one batch takes, owners take turns, so that a large owner cannot delay a
   * small one.
   */
  ownerOf?: (item: Item) => string
  /** Whether a failure may be the fault of one item, so that the group is to be run again one by one. */
  isolate?: (error: unknown) => boolean
}

/** Thrown when too many callers wait already. */
export class Overloaded extends Error {}

/**
 * Makes a function of one item from a function of many: `run` returns one value per item, in order. If a batch fails,
 * each of its callers sees the error, unless `isolate` marks errors that one item may have caused.
 */
export function batch<Item, Value>(
  run: (items: Item[]) => Promise<Value[]>,
  { max = 200, concurrency = 2, waiting = 20_000, ownerOf, isolate }: BatchOptions<Item> = {}
): (item: Item) => Promise<Value> {
  type Caller = { item: Item; resolve(value: Value): void; reject(error: unknown): void }
  const callers: Caller[] = []
  let active = 0
  let scheduled = false

  async function settle(group: Caller[]): Promise<void> {
    try {
      const values = await run(group.map(({ item }) => item))
      group.forEach((caller, index) => {
        caller.resolve(values[index] as Value)
      })
    } catch (error) {
      if (group.length > 1 && isolate?.(error)) {
        for (const caller of group) await settle([caller])
      } else for (const caller of group) caller.reject(error)
    }
  }

  function takeGroup(): Caller[] {
    if (!ownerOf || callers.length <= max) return callers.splice(0, max)
    const group = new Set(byTurns(callers, ({ item }) => ownerOf(item), max))
    const others = callers.filter(caller => !group.has(caller))
    callers.splice(0, callers.length, ...others)
    return [...group]
  }

  function flush(): void {
    scheduled = false
    while (callers.length > 0 && active < concurrency) {
      const group = takeGroup()
      active += 1
      void settle(group).finally(() => {
        active -= 1
        if (callers.length > 0) flush()
      })
    }
  }

  return item =>
    new Promise<Value>((resolve, reject) => {
      if (callers.length >= waiting) return reject(new Overloaded('Too many callers are waiting for the database.'))
      callers.push({ item, resolve, reject })
      if (!scheduled && active < concurrency) {
        scheduled = true
        setImmediate(flush)
      }
    })
}

/** Chooses `count` of the items, round-robin among owners; items of one owner stay in their order. */
function byTurns<Item>(items: Item[], ownerOf: (item: Item) => string, count: number): Item[] {
  const turns = new Turns<Item>()
  for (const item of items) turns.add(ownerOf(item), item)
  return Array.from({ length: count }, () => turns.take() as Item)
}

/**
 * Equal calls of one moment share one run: while a run for a key is under way, all further callers of that key wait for
 * one more, which begins when it ends. So a key costs one statement at a time, and no caller gets the value of a run
 * that began before its call.
 */
export function share<Value>(run: (key: string) => Promise<Value>): (key: string) => Promise<Value> {
  const running = new Map<string, Promise<Value>>()
  const coming = new Map<string, Promise<Value>>()

  async function runNext(key: string): Promise<Value> {
    // An error of the previous run goes to its own callers. This waits a turn even without one, so that it is
    // registered as coming before it begins.
    await running.get(key)?.catch(() => {})
    coming.delete(key)
    const value = run(key)
    running.set(key, value)
    try {
      return await value
    } finally {
      if (running.get(key) === value) running.delete(key)
    }
  }

  function begin(key: string): Promise<Value> {
    const next = runNext(key)
    coming.set(key, next)
    return next
  }

  return key => coming.get(key) ?? begin(key)
}

/** Whether PostgreSQL blames the data of a statement (SQLSTATE classes 22 and 23), not itself. */
export function isDataError(error: unknown): boolean {
  const code = (error as { code?: unknown })?.code
  return typeof code === 'string' && /^2[23]/.test(code)
}

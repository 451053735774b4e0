// The results of orders are written in groups (db/postgres/batch.ts). One partner's many do not delay another's few: when more wait than
// one group takes, partners take turns. Copies, which come in thousands, have groups of their own, small ones and one at a time.
import { batch, isDataError } from '../../db/postgres/batch.ts'

const COPIES = { max: 50, concurrency: 1 }

/** An order, as far as its place in a group depends on it: its partner's application at the broker, and whether it is a copy. */
interface GroupKey {
  app_id: string
  isCopy: boolean
}

export type Grouped<Item, Value> = (item: Item, order: GroupKey) => Promise<Value>

/**
 * Makes a function of one item and its order from a function of many items. A group that fails for its data is run again one by one, so
 * that one item which cannot be written keeps no other from it.
 */
export function groupOrders<Item, Value>(run: (items: Item[]) => Promise<Value[]>): Grouped<Item, Value> {
  type Entry = { item: Item; appId: string }
  const runAll = (entries: Entry[]) => run(entries.map(({ item }) => item))
  const fair = { ownerOf: ({ appId }: Entry) => appId, isolate: isDataError }
  const ofTraders = batch(runAll, fair)
  const ofCopies = batch(runAll, { ...fair, ...COPIES })
  return (item, { app_id: appId, isCopy }) => (isCopy ? ofCopies : ofTraders)({ item, appId })
}

// What is written about orders travels in groups. Copies of one order come in thousands: in groups of their own, small ones and one at
// a time, they do not delay what is written about the orders of traders themselves.
import { batch, isDataError } from '../../db/postgres/batch.ts'

const COPIES = { max: 50, concurrency: 1 }

/**
 * Makes a function of one item from a function of many, as `batch` does, with groups of their own for items that belong to copies. A
 * group that fails for its data is run again one by one.
 */
export function batchApart<Item extends { copied: boolean }, Value>(
  run: (items: Item[]) => Promise<Value[]>
): (item: Item) => Promise<Value> {
  const ofTraders = batch(run, { isolate: isDataError })
  const ofCopies = batch(run, { ...COPIES, isolate: isDataError })
  return item => (item.copied ? ofCopies : ofTraders)(item)
}

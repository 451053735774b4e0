// A read while somebody else changes what it reads.
import type { Db } from '../../db/postgres/connection.ts'
import { until } from './until.ts'

/** What `read` returns when `change` commits while the first statement that reads this table waits for it. */
export async function readBeside<T>(
  db: Db,
  table: string,
  { read, change }: { read: () => Promise<T>; change: (trx: Db) => Promise<unknown> }
): Promise<T> {
  const trx = await db.transaction()
  await trx.raw('lock table ?? in access exclusive mode', [table])
  const reading = read()
  await until('the reader waits', async () => {
    const { rows } = await trx.raw('select from pg_locks where relation = cast(? as regclass) and not granted', [table])
    return rows.length > 0
  })
  await change(trx).finally(() => trx.commit())
  return reading
}

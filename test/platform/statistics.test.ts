// The planner's knowledge of a table keeps up with its growth.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { rows } from '../../db/postgres/connection.ts'
import { analyseGrown } from '../../db/postgres/statistics.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { until } from '../support/until.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()

const statistics = suite('statistics')

statistics('are made when a table has doubled, and not again before it has', async () => {
  const trader = await partner.makeTrader()
  await db.raw('analyze orders')
  assert.is((await analyseGrown(db)).includes('orders'), false)
  await insertOrderRows(db, trader, { count: 2000 })
  assert.is((await analyseGrown(db)).includes('orders'), true)
  assert.is((await analyseGrown(db)).includes('orders'), false)
})

statistics('are made again of a table that was analysed while a transaction filled it', async () => {
  const { partnerId } = partner
  await db.transaction(async trx => {
    await trx.batchInsert(
      'traders',
      Array.from({ length: 4000 }, (_, index) => ({
        id: newId('trader'),
        partner_id: partnerId,
        external_id: `filled-${index}`
      }))
    )
    // Nobody else sees these rows yet, while the table is as long as they make it.
    await db.raw('analyze traders')
  })
  const known = () => rows<{ reltuples: number }>(db, `select reltuples from pg_class where oid = 'traders'::regclass`)
  const [{ reltuples: before }] = (await known()) as [{ reltuples: number }]
  assert.ok(before < 1000, `known before: ${before}`)
  // PostgreSQL counts the rows of a transaction some time after its commit.
  await until('the analysis', async () => (await analyseGrown(db)).includes('traders'))
  const [{ reltuples: after }] = (await known()) as [{ reltuples: number }]
  assert.ok(after >= 4000, `known afterwards: ${after}`)
})

statistics.after(closeAll)
statistics.run()

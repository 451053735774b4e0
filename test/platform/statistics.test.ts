// The planner's knowledge of a table keeps up with its growth.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { analyseGrown } from '../../db/postgres/statistics.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

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

statistics.after(closeAll)
statistics.run()

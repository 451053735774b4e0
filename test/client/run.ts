// `make client-kills`: the long form of kills.test.ts. KILLS, ORDERS and SEED in the environment.

import { closeAll } from '../support/harness.ts'
import { seed } from '../support/seed.ts'
import { runKills } from './kills.ts'

const { KILLS = '100', ORDERS = '40' } = process.env
const report = await runKills({ kills: Number(KILLS), orders: Number(ORDERS), seed })
await closeAll()
console.log(JSON.stringify({ seed, ...report }, null, 2))
const { lost, doubled, contracts, intents, sum, brokerSum, balance } = report
const held =
  lost + doubled === 0 && contracts === intents && sum === brokerSum && Math.abs(balance - 10_000 - sum) < 0.005
console.log(held ? 'Each intent was bought once, and the sum is right.' : 'A promise is broken.')
process.exitCode = held ? 0 : 1

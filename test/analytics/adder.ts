// A process that adds up contracts all the time, until it is killed.
import { setTimeout as pause } from 'node:timers/promises'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { openDatabase } from '../../db/postgres/connection.ts'

const db = openDatabase({ url: process.env.DATABASE_URL as string, pool: 2, name: 'adder' })
for (;;) {
  const more = await addUpAnalytics(db, { halvings: Math.floor(Math.random() * 4), spacing: 20 })
  if (!more) await pause(20)
}

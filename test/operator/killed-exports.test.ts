// test in the full run only
// A command that is killed while it writes a file: what is left does not look like a whole export.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openDatabase } from '../../db/postgres/connection.ts'
import { archiveDue } from '../../worker/orders/archiving.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { daysAgo, insertOldOrder } from '../support/old-orders.ts'
import { operator } from '../support/operator.ts'

const { services, env, url, makePartner } = await openHarness({ env: { ARCHIVE_AFTER_DAYS: '60' } })
const { db } = services
// Connections that no other statement of the test waits for.
const own = openDatabase({ url, pool: 2, name: 'test-locks' })
onClose(() => own.destroy())
const partner = await makePartner()
const trader = await partner.makeTrader()
const directory = await mkdtemp(join(tmpdir(), 'killed-exports-'))
onClose(() => rm(directory, { recursive: true, force: true }))

/** Kills the command once it waits for a table that it reads for its file. */
async function killBefore(table: string, args: string[]): Promise<void> {
  const holder = await own.transaction()
  await holder.raw(`lock table ${table} in access exclusive mode`)
  const child = spawn(process.execPath, ['cli/main.ts', ...args], { env: { ...process.env, ...env }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  const waiting = `select from pg_stat_activity where datname = current_database() and application_name = 'service-cli-patient' and wait_event_type = 'Lock'`
  try {
    await until('the command to wait', async () => (await own.raw(waiting)).rows.length > 0, 60_000)
  } finally {
    child.kill('SIGKILL')
    await ended
    await holder.rollback()
  }
}

const killed = suite('operator: an export that is killed')

killed('of a trader leaves a part that is named so, and is repeated once that is deleted', async () => {
  const file = join(directory, 'trader.jsonl')
  const command = ['traders', 'export', trader.traderId, '--file', file]
  await killBefore('trade_records', command)
  assert.equal(await readdir(directory), ['trader.jsonl.part'])
  const refused = await operator(env, ...command)
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, /trader\.jsonl\.part exists: .* delete the part and repeat\.\n$/)
  await rm(`${file}.part`)
  const { exitCode, stderr } = await operator(env, ...command)
  assert.is(exitCode, 0, stderr)
  assert.is((await stat(file)).mode & 0o777, 0o600)
  assert.equal(await readdir(directory), ['trader.jsonl'])
})

killed('of a month leaves a part that is named so', async () => {
  const at = daysAgo(100)
  await insertOldOrder(db, trader, { at })
  await archiveDue(services)
  const file = join(directory, 'month.csv')
  const month = at.toISOString().slice(0, 7)
  await killBefore('orders_archive', ['archive', 'export', '--month', month, '--format', 'csv', '--file', file])
  assert.equal(
    (await readdir(directory)).filter(name => name.startsWith('month')),
    ['month.csv.part']
  )
})

killed.after(closeAll)
killed.run()

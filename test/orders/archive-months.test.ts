// What operators do with the archive: look, export a month, drop months that are exported. Dropped orders leave their names.
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { verifyExport, writeExport } from '../../cli/orders/archive-files.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { dropMonth, ExportSum, exportMonth, readUnmoved } from '../../db/orders/archive-months.ts'
import { rows } from '../../db/postgres/connection.ts'
import { archiveDue, paceBeside } from '../../worker/orders/archiving.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { binaryOrder, daysAgo, insertOldOrder } from '../support/old-orders.ts'
import { operator, operatorProcess } from '../support/operator.ts'

type ArchivePace = ReturnType<typeof paceBeside>

const harness = await openHarness({ env: { ORDER_TTL_MS: '200', SETTLE_WAIT_MS: '200', ARCHIVE_AFTER_DAYS: '60' } })
const { services, env } = harness
const { db } = services
const partner = await harness.makePartner()
const trader = await partner.makeTrader()
const monthOf = (at: Date) => at.toISOString().slice(0, 7)
/** In the middle of the month so many months ago. */
const monthsAgo = (months: number) => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 15, 12))
}
const run = (...args: string[]) => operator(env, 'archive', ...args)
const directory = await mkdtemp(join(tmpdir(), 'archive-'))
const linesOf = async (file: string) => (await readFile(file, 'utf8')).trimEnd().split('\n')
async function rejects(work: Promise<unknown>, message: string): Promise<void> {
  assert.match(await work.then(String, (error: Error) => error.message), message)
}

/** The cells of a line of CSV. */
const cellsOf = (line: string): string[] =>
  [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? ''
  )

const archive = suite('operator archive')

archive('shows the months, and what is to move', async () => {
  for (const [months, count] of [
    [5, 3],
    [4, 2]
  ] as const)
    for (let i = 0; i < count; i++)
      // Line ends of all kinds are texts like others.
      await insertOldOrder(db, trader, {
        at: monthsAgo(months),
        barrier: 'a\u2028b, "c"\n',
        markup: '123456789012.123456789012'
      })
  await insertOldOrder(db, trader, { at: daysAgo(45) })
  assert.is((await readUnmoved(db, { days: 60, most: 3 })).orders, 3)
  assert.is((await run('status', '--json')).json.toMove, 5)
  await archiveDue({ ...services, config: { ...services.config, archiveAfterDays: 0 } })
  assert.is((await run('status', '--json')).json.toMove, 5)
  await archiveDue(services)
  const { toMove, orders, archiveAfterDays, data } = (await run('status', '--json')).json
  assert.equal([toMove, orders, archiveAfterDays], [0, 5, 60])
  assert.equal(
    data.map(({ month, orders: count }: { month: string; orders: number }) => [month, count]),
    [
      [monthOf(monthsAgo(5)), 3],
      [monthOf(monthsAgo(4)), 2]
    ]
  )
  assert.match((await run('status')).stdout, new RegExp(monthOf(monthsAgo(5))))
})

archive('moves orders without pauses alone, and beside others in short batches with pauses that have a bound', () => {
  const [alone, few, many, most] = [0, 0.5, 1.5, 100].map(paceBeside) as [
    ArchivePace,
    ArchivePace,
    ArchivePace,
    ArchivePace
  ]
  assert.is(alone.pauses, 0)
  assert.ok(few.batch < alone.batch)
  assert.ok(alone.pauses < few.pauses && few.pauses < many.pauses && many.pauses < most.pauses)
  assert.is(most.pauses, paceBeside(1000).pauses)
})

archive('exports a month into a new file, as CSV and as JSON lines', async () => {
  const month = monthOf(monthsAgo(5))
  for (const format of ['csv', 'jsonl']) {
    const file = join(directory, `one.${format}`)
    const { exitCode, stderr, json } = await run(
      'export',
      '--month',
      month,
      '--format',
      format,
      '--file',
      file,
      '--json'
    )
    assert.is(exitCode, 0, stderr)
    assert.equal([json.month, json.orders, json.file], [month, 3, file])
    assert.is((await stat(file)).mode & 0o777, 0o600)
    assert.is((await run('export', '--month', month, '--format', format, '--file', file)).exitCode, 1)
  }
  const orders = (await linesOf(join(directory, 'one.jsonl'))).map(line => JSON.parse(line))
  assert.is(orders.length, 3)
  assert.is(orders[0].barrier, 'a\u2028b, "c"\n')
  const [head = '', ...cells] = await linesOf(join(directory, 'one.csv'))
  assert.match(head, /^id,partner_id,trader_id,.*,markup$/)
  assert.match(cells.join('\n'), /,123456789012\.123456789012\n/)
  assert.is((await run('export', '--month', '2001-01', '--file', join(directory, 'none'))).exitCode, 1)
})

archive('leaves no file of an export that could not be finished', async () => {
  const files = { csv: join(directory, 'broken.csv'), jsonl: join(directory, 'broken.jsonl') }
  const taken = join(directory, 'one.csv')
  const lines = await linesOf(join(directory, 'one.jsonl'))
  async function* broken() {
    yield lines
    throw new Error('the connection broke')
  }
  const wanted = Object.entries(files).map(([format, file]) => ({ format: format as 'csv' | 'jsonl', file }))
  await rejects(writeExport(broken(), wanted), 'the connection broke')
  // Nor the first of two where the second exists, which stays.
  await rejects(
    writeExport(broken(), [
      { format: 'jsonl', file: files.jsonl },
      { format: 'csv', file: taken }
    ]),
    'EEXIST'
  )
  for (const file of Object.values(files)) assert.is(await stat(file).catch(() => undefined), undefined)
  assert.ok((await stat(taken)).size > 0)
  // Nor over a file that another command has made meanwhile.
  const another = join(directory, 'another.jsonl')
  async function* overtaken() {
    yield lines
    await writeFile(another, 'of another')
  }
  await rejects(writeExport(overtaken(), [{ format: 'jsonl', file: another }]), 'EEXIST')
  assert.is(await readFile(another, 'utf8'), 'of another')
})

archive('takes no file for an export that is not as it was written, or lacks one of the orders', async () => {
  const lines = await linesOf(join(directory, 'one.jsonl'))
  async function* whole() {
    yield lines
  }
  const files = (['csv', 'jsonl'] as const).map(format => ({ format, file: join(directory, `kept.${format}`) }))
  const written = await writeExport(whole(), files)
  await verifyExport(written)
  for (const { file } of files) {
    const text = await readFile(file, 'utf8')
    await writeFile(file, text.replace('R_100', 'R_500'))
    await rejects(verifyExport(written), `${file} is not as it was written; nothing was dropped.`)
    await writeFile(file, text)
  }
  await rejects(verifyExport({ ...written, orders: 4 }), 'does not hold the orders of the month; nothing was dropped.')
  await rejects(
    verifyExport({ ...written, checksum: '' }),
    'does not hold the orders of the month; nothing was dropped.'
  )
})

archive('drops months that are exported and verified, and nothing without consent', async () => {
  const [first, second] = [monthOf(monthsAgo(5)), monthOf(monthsAgo(4))]
  const { body } = binaryOrder(trader)
  const id = await insertOldOrder(db, trader, { at: monthsAgo(5), clientOrderId: body.clientOrderId })
  await archiveDue(services)
  const drop = (...args: string[]) => run('drop', '--before', second, '--directory', directory, ...args)
  assert.is((await drop()).exitCode, 1)
  assert.is((await db('orders_archive').where({ id })).length, 1)
  const { exitCode, stderr, json } = await drop('--yes', '--json')
  assert.is(exitCode, 0, stderr)
  const [dropped, ...others] = json.data
  assert.equal([dropped.month, dropped.orders, others.length], [first, 4, 0])
  assert.is((await linesOf(join(directory, `orders-${first}.jsonl`))).length, 4)
  assert.is((await readFile(join(directory, `orders-${first}.csv`), 'utf8')).match(/^ord_/gm)?.length, 4)
  assert.is((await db('orders_archive').where({ id })).length, 0)
  const [month] = (await run('status', '--json')).json.data
  assert.equal([month.orders, month.dropped], [0, 4])
  const audited = await db('audit_log').where({ action: 'archive.drop', target: first }).first()
  assert.is(audited.details.orders, 4)
  const repeat = await partner.call(placeBinaryOrder, { body })
  assert.equal([repeat.status, repeat.body.error, repeat.body.orderId], [409, 'CLIENT_ORDER_ID_REUSED', id])
  assert.is((await run('drop', '--before', second, '--directory', directory, '--yes')).exitCode, 1)
})

archive('exports names as CSV that no program takes for formulas, and as JSON lines as they are', async () => {
  const names = ['=cmd|"x"', '+1', '-2+3', '@SUM(A1)', '\uff1d1', 'plain-1']
  const at = monthsAgo(9)
  for (const name of names)
    await insertOldOrder(db, trader, { at, trader_external_id: name, clientOrderId: `=${randomUUID()}`, pnl: '-9.50' })
  await archiveDue(services)
  const files = { csv: join(directory, 'names.csv'), jsonl: join(directory, 'names.jsonl') }
  for (const [format, file] of Object.entries(files))
    await run('export', '--month', monthOf(at), '--format', format, '--file', file)
  const lines = (await linesOf(files.jsonl)).map(line => JSON.parse(line))
  assert.equal(lines.map(order => order.trader_external_id).sort(), [...names].sort())
  const [head = [], ...orders] = (await linesOf(files.csv)).map(cellsOf)
  const column = (name: string) => orders.map(cells => cells[head.indexOf(name)] ?? '')
  assert.equal(column('trader_external_id').sort(), names.map(name => (name === 'plain-1' ? name : `'${name}`)).sort())
  for (const name of column('client_order_id')) assert.match(name, /^'=/)
  assert.equal(
    column('pnl'),
    names.map(() => '-9.50')
  )
})

archive('drops nothing that the disk does not give back as it was written', async () => {
  const at = monthsAgo(9)
  const place = await mkdtemp(join(tmpdir(), 'archive-'))
  // Loaded before anything else: a disk that has one byte more of each file that has got its name.
  const broken = `import fs from 'node:fs/promises'
    import { appendFileSync } from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const { rename } = fs
    fs.rename = async (from, to) => { await rename(from, to); appendFileSync(to, ' ') }
    syncBuiltinESMExports()`
  const { NODE_OPTIONS = '' } = process.env
  const loaded = `--import=data:text/javascript,${encodeURIComponent(broken)}`
  const options = { ...env, NODE_OPTIONS: `${NODE_OPTIONS} ${loaded}` }
  const until = ['--before', monthOf(monthsAgo(8))]
  const refused = await operatorProcess(options, 'archive', 'drop', ...until, '--directory', place, '--yes')
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, 'is not as it was written; nothing was dropped.')
  assert.is((await db('orders_archive').where({ created_at: at })).length, 6)
})

archive('drops no month that a dump reads, and names what to do', async () => {
  const at = monthsAgo(9)
  const place = await mkdtemp(join(tmpdir(), 'archive-'))
  const dump = await db.transaction()
  await dump.raw('select count(*) from orders_archive')
  const drop = () => run('drop', '--before', monthOf(monthsAgo(8)), '--directory', place, '--yes', '--json')
  const refused = await drop()
  await dump.rollback()
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, new RegExp(`^${monthOf(at)} is in use, by a dump for example, and was not dropped`))
  assert.is((await db('orders_archive').where({ created_at: at })).length, 6)
  // The files of the first try are not written over.
  assert.match((await drop()).stderr, /^Cannot open .*orders-.*: file already exists/)
  for (const ending of ['csv', 'jsonl']) await rm(join(place, `orders-${monthOf(at)}.${ending}`))
  const { exitCode, stderr, json } = await drop()
  assert.is(exitCode, 0, stderr)
  assert.equal(
    json.data.map(({ month, orders }: { month: string; orders: number }) => [month, orders]),
    [[monthOf(at), 6]]
  )
})

archive('drops no month of which an order has not moved yet', async () => {
  const at = monthsAgo(7)
  const place = await mkdtemp(join(tmpdir(), 'archive-'))
  await insertOldOrder(db, trader, { at })
  const running = await insertOldOrder(db, trader, { at, phase: 'open', pnl: null, closed_at: null })
  await archiveDue(services)
  const drop = () => run('drop', '--before', monthOf(monthsAgo(6)), '--directory', place, '--yes', '--json')
  const refused = await drop()
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, new RegExp(`^${monthOf(at)} has 1 orders that have not moved to the archive`))
  await db('orders').where({ id: running }).update({ phase: 'closed', pnl: 1, closed_at: at })
  await archiveDue(services)
  const { exitCode, stderr, json } = await drop()
  assert.is(exitCode, 0, stderr)
  assert.is(json.data[0].orders, 2)
})

archive('drops no month that differs from its export, or whose events are kept', async () => {
  const month = monthOf(monthsAgo(4))
  const sum = new ExportSum()
  await db.transaction(async trx => {
    for await (const lines of exportMonth(trx, month)) for (const line of lines) sum.add(line)
  })
  const { orders, checksum } = sum
  for (const change of [{ trader_external_id: randomUUID() }, { markup: '0.5' }]) {
    await db('orders_archive').where({ trader_id: trader.traderId }).update(change)
    assert.is(await dropMonth(db, { month, orders, checksum }), false)
  }
  assert.is(await dropMonth(db, { month, orders: orders + 1, checksum }), false)
  const next = monthOf(monthsAgo(3))
  const [kept] = await rows<{ id: string }>(db, 'select id from orders_archive limit 1')
  await rows(
    db,
    `insert into events (partner_id, day, position, id, type, subject, at, facts)
     select :partnerId, (now() at time zone 'UTC')::date, 1, gen_random_uuid(), 'order.closed', :id, now(), null`,
    { partnerId: partner.partnerId, id: kept?.id }
  )
  const refused = await run('drop', '--before', next, '--directory', directory, '--yes')
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, /events/)
  assert.is((await db('orders_archive').count('* as count'))[0]?.count, orders)
})

const multiplier = {
  kind: 'MULTIPLIER',
  direction: 'up',
  multiplier: 100,
  contract_type: null,
  duration: null,
  duration_unit: null
}

archive(
  'keeps the sums of what it drops, however late that ended, whatever is verified and repaired afterwards',
  async () => {
    // Of later months nothing was dropped.
    await db('archive_months').where({ orders: 0 }).delete()
    const own = await harness.makePartner()
    await insertOldOrder(db, await own.makeTrader(), { at: monthsAgo(16), ...multiplier, closed_at: daysAgo(70) })
    const addUp = async () => {
      while (await addUpAnalytics(db));
    }
    const sums = () =>
      rows(
        db,
        `select quarter, grouping_by, contracts, traders_pnl from analytics_quarters where partner_id = :partnerId
        union all select day::timestamptz, trader_id, trades, pnl from analytics_trader_days where partner_id = :partnerId order by 1, 2`,
        { partnerId: own.partnerId }
      )
    await addUp()
    const before = await sums()
    assert.ok(before.length > 1)
    await archiveDue(services)
    const dropped = await run('drop', '--before', monthOf(monthsAgo(15)), '--directory', directory, '--yes', '--json')
    assert.equal([dropped.exitCode, dropped.json.data.length], [0, 1], dropped.stderr)
    const { exitCode, stderr, json } = await operator(env, 'analytics', 'verify', '--days', '100', '--repair', '--json')
    assert.equal([exitCode, json.found], [0, []], stderr)
    await addUp()
    assert.equal(await sums(), before)
  }
)

archive('drops no month whose sums an order may change that is not at its end', async () => {
  const own = await harness.makePartner()
  const trader = await own.makeTrader()
  const next = new Date(`${monthOf(monthsAgo(12))}-01T00:00:00Z`)
  const month = monthOf(monthsAgo(13))
  const after = (seconds: number) => new Date(next.getTime() + 1000 * seconds)
  await insertOldOrder(db, trader, { at: after(-1), opened_at: after(1), closed_at: after(2) })
  const open = { ...multiplier, phase: 'open', pnl: null, closed_at: null }
  const running = await insertOldOrder(db, trader, { at: after(5), ...open })
  // Later ones change other days.
  await insertOldOrder(db, trader, { at: after(86_400), ...open })
  await archiveDue(services)
  const place = await mkdtemp(join(tmpdir(), 'archive-'))
  const drop = () => run('drop', '--before', monthOf(next), '--directory', place, '--yes', '--json')
  const refused = await drop()
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, new RegExp(`^1 orders that are not final .* the last order of ${month} ended`))
  await db('orders').where({ id: running }).update({ phase: 'closed', pnl: 1, closed_at: new Date() })
  const { exitCode, stderr, json } = await drop()
  assert.equal([exitCode, json?.data[0].orders], [0, 1], stderr)
})

archive.after(closeAll)
archive.run()

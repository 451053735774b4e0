// The operators' log: it only grows, and its chain shows what somebody changed who got past that.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listAudit, recordAudit, verifyAudit } from '../../db/platform/audit.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { rowsRead } from '../support/rows-read.ts'

const harness = await openHarness()
const { db } = harness.services
const write = (target: string) =>
  recordAudit(db, { actor: 'cli:test', action: 'test.write', target, details: { n: 1 } })

const chaining = suite('the audit log')

chaining('refuses to change, delete or cut off lines, whoever tries', async () => {
  await write('one')
  for (const statement of [
    `update audit_log set actor = 'nobody'`,
    'delete from audit_log',
    'truncate audit_log',
    `update audit_log set hash = '\\x00' where target = 'one'`
  ]) {
    const error = await db.raw(statement).then(
      () => undefined,
      (thrown: Error) => thrown.message
    )
    assert.match(error ?? '', /the audit log only grows/, statement)
  }
})

chaining('stays one chain when many write at once, and when writers give up', async () => {
  const writers = Array.from({ length: 30 }, (_, index) =>
    db
      .transaction(async trx => {
        await recordAudit(trx, { actor: 'cli:test', action: 'test.race', target: String(index) })
        if (index % 3 === 0) throw new Error('given up')
      })
      .catch(() => {})
  )
  await Promise.all(writers)
  const { entries, broken, lastHash } = await verifyAudit(db)
  assert.equal([entries, broken], [21, null])
  assert.match(lastHash ?? '', /^[0-9a-f]{64}$/)
})

chaining('shows a line that was changed, taken out or put in behind its triggers', async () => {
  const tamper = (statement: string) =>
    db
      .transaction(async trx => {
        await trx.raw('alter table audit_log disable trigger user')
        await trx.raw(statement)
        const { broken } = await verifyAudit(trx)
        throw new Error(broken ?? 'not found')
      })
      .catch((error: Error) => error.message)
  const line = (seq: number) => new RegExp(`line ${seq} `)
  assert.match(await tamper(`update audit_log set details = '{"n":2}' where seq = 1`), line(1))
  assert.match(await tamper(`update audit_log set at = at + interval '1 us' where seq = 5`), line(5))
  assert.match(await tamper('delete from audit_log where seq = 7'), line(8))
  assert.match(await tamper('delete from audit_log where seq = 1'), line(2))
  assert.match(await tamper(`update audit_log set hash = sha256('forged') where seq = 9`), line(9))
  // Whoever takes a line out and makes the chain whole again leaves a gap in its numbers.
  const forged = `do $$
    declare
      line audit_log;
      previous bytea := (select hash from audit_log where seq = 6);
    begin
      delete from audit_log where seq = 7;
      for line in select * from audit_log where seq > 7 order by seq loop
        previous := audit_hash(previous, line);
        update audit_log set hash = previous where id = line.id;
      end loop;
    end $$`
  assert.match(await tamper(forged), line(8))
  assert.is((await verifyAudit(db)).broken, null)
})

chaining('is read about one target without the lines about others', async () => {
  for (const count of [2, 2000, 1])
    await db.raw(
      `insert into audit_log (id, actor, action, target)
       select 'aud_' || replace(cast(gen_random_uuid() as text), '-', ''), 'cli:test', 'test.write', ? from generate_series(1, ?)`,
      [count > 2 ? 'often' : 'seldom', count]
    )
  await db.raw('analyze audit_log')
  const read = await rowsRead(db, 'audit_log', async trx => {
    const { data, nextCursor } = await listAudit(trx, { limit: 2, target: 'seldom' })
    const rest = await listAudit(trx, { limit: 2, target: 'seldom', cursor: nextCursor as string })
    assert.equal([data.length, rest.data.length, rest.nextCursor], [2, 1, null])
  })
  assert.ok(read < 20, `${read} lines read`)
})

chaining.after(closeAll)
chaining.run()

// The books of the broker that workers run for test keys, and who runs it: the session that holds one advisory lock. Only that session
// writes the books, so a worker that lost the lock cannot enter anything any more, whatever it believes.
import pg from 'pg'
import { type Db, DEPENDABLE, rows, sessionAt } from '../postgres/connection.ts'

const LOCK = `hashtextextended('test broker', 0)`
const CONNECT_MS = 5000
const STATEMENT_MS = 10_000
// PostgreSQL ends the session of a machine that is gone after some 11 s, and with it the lock.
const OPTIONS = `${DEPENDABLE} -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c tcp_user_timeout=11000`

/** Closed contracts are kept for so many days, and at most so many; older ones become part of their account's first balance. */
const KEPT_DAYS = 30
const KEPT_SALES = 50_000
const PRUNED_AT_ONCE = 1000
const WRITTEN_AT_ONCE = 1000

/** Something the test broker enters; `entry` is its own and comes back as it was given. */
interface TestBrokerEntry {
  kind: 'account' | 'deposit' | 'bought' | 'limits' | 'sold'
  account: string | null
  contract: number | null
  cents: number
  entry: object
}

interface TestBrokerHost {
  /** Whether a partner has a test side, so that somebody has to run the broker, and nobody does. */
  missing: boolean
  url: string | null
  machine: string | null
}

/** Where the test broker was last run, and whether it has to be. */
export async function findTestBroker(db: Db): Promise<TestBrokerHost> {
  const [found] = await rows<TestBrokerHost>(
    db,
    // The lock is given back at the end of the statement: taken, it shows that nobody holds it.
    `select case when exists (select from partners where test_of is not null) then pg_try_advisory_xact_lock(${LOCK})
                 else false end as missing, b.url, b.machine
       from (select) one left join test_broker b on true`
  )
  return found as TestBrokerHost
}

/** The books, held by this process alone. */
export interface TestBrokerBooks {
  /** What had been entered. */
  entries: object[]
  /** Enters something; it is on disk when what `after` was given later runs. */
  enter(entry: TestBrokerEntry): void
  /** Runs `run` once all entered so far is on disk: at once where it is. Never, once the books are lost. */
  after(run: () => void): void
  /** Stores where the broker is reached. */
  announce(host: { worker: string; machine: string; url: string }): Promise<void>
  /** Rejects where the books are no more held. */
  check(): Promise<void>
  /** Resolves with the cause when they are no more held. */
  lost: Promise<Error>
  /** Writes what is left, and lets another process have them. */
  close(): Promise<void>
}

/** Takes the books; undefined where another process holds them. */
export async function holdTestBroker(url: string): Promise<TestBrokerBooks | undefined> {
  const client = new pg.Client({
    ...sessionAt(url, OPTIONS),
    application_name: 'service-test-broker',
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: STATEMENT_MS,
    // A statement that nobody waits for would continue, and keep the books locked.
    statement_timeout: STATEMENT_MS,
    keepAlive: true
  })
  const lost = Promise.withResolvers<Error>()
  client.on('error', lost.resolve)
  client.on('end', () => lost.resolve(new Error('The connection ended.')))
  try {
    await client.connect()
    const { rows: locks } = await client.query(`select pg_try_advisory_lock(${LOCK}) as held`)
    if (!locks[0]?.held) {
      await client.end()
      return undefined
    }
    await prune(client)
    const { rows: kept } = await client.query('select entry from test_broker_entries order by seq')
    return openBooks(client, { entries: kept.map(({ entry }) => entry as object), lost })
  } catch (error) {
    void client.end().catch(() => {})
    throw error
  }
}

/**
 * Forgets contracts that closed long ago; what they came to is added to the balance that their account began with. Written so that no
 * plan goes through the entries once for each contract: where PostgreSQL last counted few entries, joins would.
 */
async function prune(client: pg.Client): Promise<void> {
  for (let pruned = PRUNED_AT_ONCE; pruned === PRUNED_AT_ONCE; ) {
    const { rows: counts } = await client.query(
      `with old as materialized (
         select contract from test_broker_entries
          where kind = 'sold' and (
                  at < now() - $1 * interval '1 day'
                  or seq <= (select seq from test_broker_entries where kind = 'sold' order by seq desc offset $2 limit 1))
          order by seq limit $3
       ), gone as (
         delete from test_broker_entries where contract = any (array(select contract from old)) returning contract, account, cents
       ), sums as (
         select account, sum(cents) as cents
           from (select max(account) as account, sum(cents) as cents from gone group by contract) contracts
          where account is not null group by account
       ), kept as (
         update test_broker_entries a
            set cents = a.cents + s.cents, entry = jsonb_set(a.entry, '{cents}', to_jsonb((a.entry ->> 'cents')::bigint + s.cents))
           from sums s where a.kind = 'account' and a.account = s.account
       )
       select count(*)::int as n from old`,
      [KEPT_DAYS, KEPT_SALES, PRUNED_AT_ONCE]
    )
    pruned = counts[0]?.n ?? 0
  }
}

function openBooks(
  client: pg.Client,
  { entries, lost }: { entries: object[]; lost: PromiseWithResolvers<Error> }
): TestBrokerBooks {
  let waiting: TestBrokerEntry[] = []
  let entered = 0
  let written = 0
  let writing: Promise<void> | undefined
  const held: { after: number; run: () => void }[] = []

  // It ends in the step in which it finds nothing more to write: an entry that comes then begins the next one.
  async function write(): Promise<void> {
    try {
      while (waiting.length > 0) await writeBatch(waiting.splice(0, WRITTEN_AT_ONCE))
    } catch (error) {
      // What was not written counts as never happened: nobody was notified of it, and the broker ends.
      waiting = []
      held.length = 0
      lost.resolve(error as Error)
    } finally {
      writing = undefined
    }
  }

  async function writeBatch(batch: TestBrokerEntry[]): Promise<void> {
    await client.query(
      `insert into test_broker_entries (kind, account, contract, cents, entry)
       select kind, account, contract, cents, entry::jsonb
         from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) with ordinality
           as e (kind, account, contract, cents, entry, n) order by n`,
      [
        batch.map(({ kind }) => kind),
        batch.map(({ account }) => account),
        batch.map(({ contract }) => contract),
        batch.map(({ cents }) => cents),
        batch.map(({ entry }) => JSON.stringify(entry))
      ]
    )
    written += batch.length
    while (held[0] && held[0].after <= written) held.shift()?.run()
  }

  function flush(): void {
    writing ??= write()
  }

  return {
    entries,
    lost: lost.promise,
    enter(entry) {
      waiting.push(entry)
      entered += 1
      flush()
    },
    after(run) {
      if (written === entered && held.length === 0) run()
      else held.push({ after: entered, run })
    },
    async announce({ worker, machine, url }) {
      await client.query(
        `insert into test_broker (worker, machine, url) values ($1, $2, $3)
         on conflict (single) do update set worker = excluded.worker, machine = excluded.machine, url = excluded.url, since = now()`,
        [worker, machine, url]
      )
    },
    async check() {
      await client.query('select')
    },
    async close() {
      await writing
      await client.end().catch(() => {})
    }
  }
}

// The broker of test keys where TEST_BROKER_URL names none: one of the workers runs a simulated one, and all of them trade with it. It
// starts with the first test key. Its books are in the database; when its worker ends, another goes on with them.
import { hostname } from 'node:os'
import type { Log } from '../db/platform/log.ts'
import { findTestBroker, holdTestBroker, type TestBrokerBooks } from '../db/platform/test-broker.ts'
import type { Db } from '../db/postgres/connection.ts'
import type { Config } from '../schemas/config/config.ts'
import { BrokerError } from './broker/broker-error.ts'
import type { Clock } from './platform/clock.ts'
import { startLoop } from './platform/loop.ts'
import type { Journal, JournalLine } from './simulator/engine/journal.ts'
import type { Simulator } from './simulator/server.ts'

/** How often a worker checks who runs it. */
const CHECK_MS = 1000
const MAX_CONTRACTS = 100_000
// One seed for all workers, so that prices continue when another one takes over.
const SEED = 1
/** Addresses that are each machine's own, among them those at which a broker listens everywhere. */
const OWN = /^(localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1?)$/

export interface TestBroker {
  /** Where it is reached. Throws BrokerError NotConnected where nobody runs it that can be reached from here. */
  url(): string
  close(): Promise<void>
}

interface RunningTestBroker {
  books: TestBrokerBooks
  simulator: Simulator
}

/** Takes part in running the test broker. Nothing is started before there is a test key. */
export async function openTestBroker(options: {
  config: Pick<Config, 'testBrokerUrl' | 'testBrokerHost'>
  databaseUrl: string
  db: Db
  log: Log
  clock: Clock
  worker: string
}): Promise<TestBroker | undefined> {
  const { config, databaseUrl, db, log, clock, worker } = options
  if (config.testBrokerUrl !== undefined) return undefined
  const machine = hostname()
  let running: RunningTestBroker | undefined
  let known: { url: string; machine: string } | undefined

  async function round(): Promise<boolean> {
    if (running) {
      await running.books.check().catch(stop)
      return false
    }
    const { missing, url, machine: where } = await findTestBroker(db)
    known = url && where ? { url, machine: where } : undefined
    if (missing) await tryToRun()
    return false
  }

  async function tryToRun(): Promise<void> {
    const books = await holdTestBroker(databaseUrl)
    if (!books) return
    const entries = books.entries.length
    try {
      // Loaded only here: most workers never run it, and it would take a tenth of their start.
      const { startSimulator } = await import('./simulator/server.ts')
      const simulator = await startSimulator({
        host: config.testBrokerHost,
        seed: SEED,
        limits: 'off',
        magic: true,
        controlled: false,
        maxContracts: MAX_CONTRACTS,
        books: { journal: await journalOf(books), after: books.after }
      })
      await books.announce({ worker, machine, url: simulator.url }).catch(async error => {
        await simulator.close()
        throw error
      })
      running = { books, simulator }
      known = { url: simulator.url, machine }
    } catch (error) {
      await books.close()
      throw error
    }
    log.info({ entries }, 'running the test broker')
    void books.lost.then(stop)
  }

  async function stop(cause: Error): Promise<void> {
    const ended = running
    if (!ended) return
    running = undefined
    log.warn({ err: cause }, 'the test broker ends here: its books are not held any more')
    await ended.simulator.close()
    await ended.books.close()
  }

  const loop = startLoop({ name: 'test broker', everyMs: CHECK_MS, log, clock, round })
  return {
    url() {
      if (!known) throw unreached('No worker runs the test broker yet.')
      if (known.machine !== machine && OWN.test(new URL(known.url).hostname.replace(/^\[|\]$/g, '')))
        throw unreached(`The test broker is on ${known.machine}, for that machine alone: set TEST_BROKER_HOST there.`)
      return known.url
    },
    async close() {
      await loop.stop()
      const ended = running
      running = undefined
      await ended?.simulator.close()
      await ended?.books.close()
    }
  }
}

function unreached(message: string): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', message, { brokerCode: 'NotConnected', ran: 'no', cause: message })
}

async function journalOf(books: TestBrokerBooks): Promise<Journal> {
  const { createJournal } = await import('./simulator/engine/journal.ts')
  return createJournal({
    lines: books.entries as JournalLine[],
    write: line => books.enter({ kind: line.kind, ...movement(line), entry: line }),
    close() {}
  })
}

function movement(line: JournalLine): { account: string | null; contract: number | null; cents: number } {
  switch (line.kind) {
    case 'account':
      return { account: line.loginid, contract: null, cents: line.cents }
    case 'deposit':
      return { account: line.loginid, contract: null, cents: line.deposit.cents }
    case 'bought':
      return { account: line.contract.loginid, contract: line.contract.id, cents: -line.contract.buyCents }
    case 'limits':
      return { account: null, contract: line.id, cents: 0 }
    case 'sold':
      return { account: null, contract: line.id, cents: line.sale.cents }
  }
}

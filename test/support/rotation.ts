// The key that seals broker tokens is changed while orders and exchanges run, as the operator's help describes it:
// workers, then apis restarted with the new key first, every token sealed again (killed once in the middle), and all
// restarted without the old key. For a test at modest size, and for the benchmark.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { openVault } from '../../db/platform/crypto.ts'
import { countSealed } from '../../db/platform/token-rotation.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { findSealedToken, unsealToken } from '../../db/traders/accounts.ts'
import { until } from './harness.ts'
import { operator } from './operator.ts'
import { startApi, startProcess, startWorker, type TestProcess } from './processes.ts'

interface RotationOptions {
  db: Db
  /** Of every process; its TOKEN_KEYS are the old key alone. */
  env: Record<string, string>
  newKey: string
  /** The partner's. */
  key: string
  /** More than two steps of the rotation take, and some for those that upload their token again. */
  accounts: number
  /** Orders a second at most, and callers that share them. */
  rate: number
  callers: number
  /** How long orders run between two steps of the change. */
  pauseMs: number
  /** Apis, and workers. */
  processes: number
}

interface RotationReport {
  orders: number
  exchanges: number
  /** Calls repeated, by what ended the try before: an api on its way out refuses or closes. */
  repeats: Record<string, number>
  /** Calls that ended in anything but success. */
  failures: string[]
  /** Tokens sealed again when the first rotation was killed, and by the second one. */
  beforeKill: number
  resealed: number
  rotationMs: number
  /** The keys in use at the end, and accounts whose token the new key alone does not open. */
  keyIds: string[]
  wrong: string[]
  latencies: number[]
}

const PATIENCE_MS = 30_000
// Accounts sealed again in one step of the rotation.
const STEP = 200

/** Changes the key; resolves with what happened. Throws when a step of the change itself fails. */
export async function rotateUnderLoad(options: RotationOptions): Promise<RotationReport> {
  const { db, env, newKey, accounts, pauseMs } = options
  const both = { ...env, TOKEN_KEYS: `${newKey},${env.TOKEN_KEYS}` }
  const alone = { ...env, TOKEN_KEYS: newKey }
  const startAll = <P>(start: () => Promise<P>) => Promise.all(Array.from({ length: options.processes }, start))
  let apis = await startAll(() => startApi(env))
  let workers = await startAll(() => startWorker(env))
  const load = openLoad(options, () => apis.map(({ address }) => address))
  const traders = Array.from({ length: accounts }, (_, index) => ({
    traderExternalId: `rotating-${index}`,
    accountId: `VRTC${700_000_000 + index}`
  }))
  await Promise.all(
    Array.from({ length: 20 }, async (_, lane) => {
      for (let i = lane; i < accounts; i += 20) await load.exchange(traders[i] as Rotated)
    })
  )
  load.start(traders)
  /** One after the other: the new one is there before the old one goes. */
  const restart = async (settings: Record<string, string>): Promise<void> => {
    workers = await replace(workers, () => startWorker(settings))
    apis = await replace(
      apis,
      () => startApi(settings),
      next => {
        apis = next
      }
    )
  }
  const change = async () => {
    await sleep(pauseMs)
    await restart(both)
    const startedAt = performance.now()
    const beforeKill = await killedRotation(db, both)
    const { exitCode, stderr, json } = await operator(both, 'tokens', 'rotate', '--json')
    if (exitCode !== 0) throw new Error(`tokens rotate: ${stderr}`)
    const rotationMs = performance.now() - startedAt
    await sleep(pauseMs)
    await restart(alone)
    await sleep(pauseMs)
    return { beforeKill, resealed: json.resealed as number, rotationMs }
  }
  const changed = await change().finally(load.stop)
  for (const each of [...workers, ...apis]) each.kill('SIGTERM')
  await Promise.all([...workers, ...apis].map(({ ended }) => ended))

  const vault = openVault(newKey)
  const wrong: string[] = []
  for (const { accountId } of traders) {
    const [row] = await rows<{ id: string; dialect: string; appId: string }>(
      db,
      `select a.id, p.broker_dialect as dialect, p.broker_app_id as "appId" from broker_accounts a join partners p on p.id = a.partner_id where account_id = :accountId`,
      { accountId }
    )
    const sealed = row && (await findSealedToken(db, row.id, row))
    const token = sealed && sealed.keyId === vault.keyId ? unsealToken(vault, row.id, sealed) : undefined
    if (token !== `sim-${accountId}`) wrong.push(accountId)
  }
  const keyIds = (await countSealed(db)).map(({ keyId }) => keyId)
  return { ...(await load.stop()), ...changed, keyIds, wrong }
}

/** Begins to rotate and kills it between two steps; returns how many tokens it had sealed again. */
async function killedRotation(db: Db, env: Record<string, string>): Promise<number> {
  const newKeyId = openVault(env.TOKEN_KEYS as string).keyId
  return db.transaction(async trx => {
    // Through this transaction, which must not fall idle for long.
    const sealedAnew = async () => (await countSealed(trx)).find(({ keyId }) => keyId === newKeyId)?.accounts ?? 0
    // An account of the second step is held, so that the rotation is in the middle when it is killed. What it requested
    // for last is done all the same once this one is let go; the third step is left for whoever rotates again.
    await rows(
      trx,
      `select id from broker_accounts where id = (select id from broker_accounts where token_key_id <> :newKeyId
                                                   order by id offset ${STEP * 1.5} limit 1) for no key update`,
      { newKeyId }
    )
    const before = await sealedAnew()
    const rotation = startProcess('cli/main.ts', env, ['tokens', 'rotate'])
    await until(
      'a first step of the rotation',
      async () => (await sealedAnew()) >= before + STEP / 2,
      PATIENCE_MS
    ).catch((error: Error) => {
      throw new Error(`${error.message}; it said: ${rotation.lines.join(' ')}`)
    })
    rotation.kill('SIGKILL')
    await rotation.ended
    return sealedAnew()
  })
}

async function replace<P extends TestProcess>(
  old: P[],
  start: () => Promise<P>,
  notify: (now: P[]) => void = () => {}
): Promise<P[]> {
  let now = old
  for (const gone of old) {
    now = [...now.filter(each => each !== gone), await start()]
    notify(now)
    gone.kill('SIGTERM')
    await gone.ended
  }
  return now
}

interface Rotated {
  traderExternalId: string
  accountId: string
}

function openLoad({ key, rate, callers }: RotationOptions, addresses: () => string[]) {
  const report = {
    orders: 0,
    exchanges: 0,
    repeats: {} as Record<string, number>,
    failures: [] as string[],
    latencies: [] as number[]
  }
  let stopped = false
  let running: Promise<unknown> = Promise.resolve()

  /** Calls until it succeeds, as a partner does: the same body again, at whichever api is there. */
  async function insist(path: string, body: object): Promise<boolean> {
    const deadline = performance.now() + PATIENCE_MS
    for (let attempt = Math.floor(Math.random() * 2); ; attempt++) {
      const there = addresses()
      const failure = await fetch(`${there[attempt % there.length]}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body)
      }).then(
        async response => {
          const text = await response.text()
          return response.status === 200 ? null : `${response.status} ${JSON.parse(text).error}`
        },
        () => 'no response'
      )
      if (failure === null) return true
      if (!/^(no response|50[23] )/.test(failure) || performance.now() > deadline) {
        report.failures.push(`${path}: ${failure}`)
        return false
      }
      report.repeats[failure] = (report.repeats[failure] ?? 0) + 1
      await sleep(20)
    }
  }

  async function exchange({ traderExternalId, accountId }: Rotated): Promise<void> {
    const account = { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
    if (await insist('/v1/auth/broker/exchange', { traderExternalId, accounts: [account] })) report.exchanges += 1
  }

  async function caller(traders: Rotated[]): Promise<void> {
    const everyMs = (callers * 1000) / rate
    for (let due = performance.now() + Math.random() * everyMs; !stopped; due += everyMs) {
      await sleep(Math.max(0, due - performance.now()))
      const trader = traders[Math.floor(Math.random() * traders.length)] as Rotated
      if (Math.random() < 0.05) await exchange(trader)
      const order = { clientOrderId: randomUUID(), asset: 'R_100', contractType: 'CALL', stake: 1 }
      const before = performance.now()
      const { traderExternalId } = trader
      const done = await insist('/v1/orders/binary', { ...order, traderExternalId, duration: 1, durationUnit: 't' })
      report.latencies.push(performance.now() - before)
      if (done) report.orders += 1
    }
  }

  return {
    exchange,
    start(traders: Rotated[]) {
      running = Promise.all(Array.from({ length: callers }, () => caller(traders)))
    },
    async stop() {
      stopped = true
      await running
      return report
    }
  }
}

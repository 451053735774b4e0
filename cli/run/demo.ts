// The demonstration of `operator run`: a partner with a key, a trader of the simulated broker, and one real
// order over HTTP. Partner and key are kept in the data directory and used again by the next run.
import { randomInt, randomUUID } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Store } from '../../db/platform/store.ts'
import type { Config } from '../../schemas/config/config.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import type { BinaryOrder, Order } from '../../schemas/orders.ts'
import { issueKey } from '../partners/keys.ts'
import { createPartner } from '../partners/partners.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

const RESPONSE_TIMEOUT_MS = 60_000
const TRADER = 'demo-trader'

export interface Demo {
  partnerId: string
  key: string
  /** The demo account at the broker. */
  accountId: string
  dialect: string
}

interface DemoTarget {
  /** http://127.0.0.1:8080 */
  address: string
  store: Store
  config: Config
  actor: string
}

/** The demo partner of this data directory; a new one when there is none, or when it may not call any more. */
export async function openDemo({ address, store, config, actor }: DemoTarget): Promise<Demo> {
  const file = join(config.dataDir, 'demo.json')
  const known = await readDemo(file)
  if (known?.dialect === config.brokerDialect) {
    const { status } = await send(address, known.key, 'GET', '/v1/me')
    if (status === 200) return known
  }
  const demo = await store.db.transaction(async trx => {
    const brokerAppId = config.brokerDialect === 'v3' ? '1' : 'demo-app'
    const partner = { name: 'Demo', plan: 'PRO', balance: '500', trialDays: 30, brokerAppId } as const
    const { partnerId } = await createPartner(trx, config, { ...partner, actor })
    const { key } = await issueKey(trx, store.pepper, { partnerId, label: 'demo', scopes: defaultScopes, actor })
    return { partnerId, key, accountId: `VRTC${randomInt(1_000_000, 10_000_000)}`, dialect: config.brokerDialect }
  })
  const draft = `${file}.${process.pid}`
  await writeFile(draft, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 })
  await rename(draft, file)
  return demo
}

/** A five-tick contract that both the demonstration and the shown curl place. */
function demoOrder(): BinaryOrder {
  return {
    traderExternalId: TRADER,
    clientOrderId: randomUUID(),
    asset: 'R_100',
    contractType: 'DIGITEVEN',
    stake: 1,
    duration: 5,
    durationUnit: 't'
  }
}

/** Uploads the demo trader's token and places one order. Throws CommandRefusal with the response when one is not 200. */
export async function placeDemoOrder(address: string, { key, accountId }: Demo): Promise<Order> {
  const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }]
  await must(address, key, '/v1/auth/broker/exchange', { traderExternalId: TRADER, accounts })
  return (await must(address, key, '/v1/orders/binary', demoOrder())) as Order
}

/** A command to copy that places one more order. */
export function curlOf(address: string, { key }: Demo): string {
  return [
    `curl -sS ${address}/v1/orders/binary \\`,
    `  -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(demoOrder())}'`
  ].join('\n')
}

async function must(address: string, key: string, path: string, body: object): Promise<unknown> {
  const { status, text } = await send(address, key, 'POST', path, body)
  if (status !== 200) throw new CommandRefusal(`POST ${path} returned ${status}: ${text}`)
  return JSON.parse(text)
}

async function send(
  address: string,
  key: string,
  method: string,
  path: string,
  body?: object
): Promise<{ status: number; text: string }> {
  const response = await fetch(`${address}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body ? { 'content-type': 'application/json' } : {})
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
    signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
  })
  return { status: response.status, text: await response.text() }
}

async function readDemo(file: string): Promise<Demo | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  return JSON.parse(text) as Demo
}

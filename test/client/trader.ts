// A partner's program with the client: signs a trader up, connects an account of the broker, buys each thing on its list once
// and ends with the sum. It may be killed at any point and started again. Run: node trader.ts <baseUrl> <key> <file> <accountId> <orders>
import { readFile, rename, writeFile } from 'node:fs/promises'
import { Client, ServiceError } from '../../api/client/src/index.ts'

const [baseUrl, key, file, accountId, orders] = process.argv.slice(2) as [string, string, string, string, string]
const service = new Client({ baseUrl, key })

interface TraderPlan {
  email: string
  password: string
  signUpId: string
  intents: { clientOrderId: string; contractType: 'CALL' | 'PUT'; stake: number }[]
}

/** The intents, each with its id: written down before the first call. */
async function readPlan(): Promise<TraderPlan> {
  const written = await readFile(file, 'utf8').catch(() => undefined)
  if (written !== undefined) return JSON.parse(written)
  const intents = Array.from({ length: Number(orders) }, (_, index) => ({
    clientOrderId: crypto.randomUUID(),
    contractType: index % 2 === 0 ? ('CALL' as const) : ('PUT' as const),
    stake: 1 + index
  }))
  const [name, password, signUpId] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
  const plan = { email: `${name}@example.com`, password, signUpId, intents }
  await writeFile(`${file}.new`, JSON.stringify(plan))
  await rename(`${file}.new`, file)
  return plan
}

const { email, password, signUpId, intents } = await readPlan()
const body = { email, password }
const { traderExternalId } = await service
  .post('/v1/traders/signup', { body, idempotencyKey: signUpId })
  .catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === 'EMAIL_TAKEN')
      return service.post('/v1/traders/login', { body })
    throw error
  })
const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO' as const, currency: 'USD' }]
await service.post('/v1/auth/broker/exchange', { body: { traderExternalId, accounts } })

let sum = 0
for (const intent of intents) {
  const contract = { asset: 'R_100', duration: 15, durationUnit: 's' as const, ...intent }
  const { orderId } = await service.placeBinary({ traderExternalId, ...contract })
  const { status, pnl } = await service.waitUntilSettled(orderId)
  console.log(`${status} ${pnl}`)
  sum += pnl ?? Number.NaN
}
const { balance } = await service.get('/v1/balance', { query: { traderExternalId } })
console.log(JSON.stringify({ sum: Math.round(sum * 100) / 100, balance }))

// For tests of the broker's client: a simulated broker behind a relay that reads along, clients of it in the dialect of
// the run, accounts nobody has used, and contracts to buy.
import type { ClientOptions } from '../../worker/broker/client.ts'
import { createNextBroker } from '../../worker/broker/dialects/next.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import type {
  BinaryContract,
  Broker,
  BrokerAccount,
  BuyOptions,
  ContractListener,
  ContractState,
  MultiplierContract
} from '../../worker/broker/port.ts'
import { type Simulator, startSimulator } from '../../worker/simulator/server.ts'
import { stretched } from '../support/busy.ts'
import { appIds, dialect } from '../support/dialects.ts'
import { openRelay } from './broker-relay.ts'
import { keptLog, within } from './broker-script.ts'

export const simulator = await startSimulator({ tickMs: 20, limits: 'off' })
export const relay = await openRelay(simulator)
export const { log, lines } = keptLog()
/** For calls that get no response; those beside them are in time on a busy machine as well. */
export const quick: Partial<ClientOptions> = { responseTimeoutMs: stretched(400), connectTimeoutMs: 20_000 }
const brokers: Broker[] = []

/** A client of a simulated broker, in the dialect of the run; closed by `closeClients`. */
export function clientOf(
  options: Partial<ClientOptions> = {},
  at: Pick<Simulator, 'url' | 'nextUrl' | 'appIdHeader'> = relay
): Broker {
  const { url, nextUrl, appIdHeader } = at
  const broker =
    dialect === 'v3'
      ? createV3Broker({ url, log, ...options })
      : createNextBroker({ url: nextUrl, appIdHeader, log, ...options })
  brokers.push(broker)
  return broker
}

/** Closes the clients, the relay and the broker. */
export async function closeClients(): Promise<void> {
  for (const broker of brokers) await broker.close()
  relay.close()
  await simulator.close()
}

let accounts = 0
/** An account nobody has used yet. `flags` as the simulator reads them from a token. */
export function newAccount(flags = '', appId = appIds[dialect]): BrokerAccount & { unsealed: number } {
  const accountId = `VRTC${++accounts + 1_000}`
  const account = {
    accountId,
    appId,
    credentialId: `acc-${accounts}`,
    unsealed: 0,
    async token() {
      account.unsealed += 1
      return `sim-${accountId}${flags}`
    }
  }
  return account
}

export const even: BinaryContract = {
  kind: 'BINARY',
  contractType: 'DIGITEVEN',
  asset: 'R_100',
  stake: '10',
  currency: 'USD',
  duration: 3,
  durationUnit: 't',
  barrier: null
}
export const up: MultiplierContract = {
  kind: 'MULTIPLIER',
  direction: 'up',
  asset: 'R_100',
  stake: '10',
  currency: 'USD',
  multiplier: 40,
  stopLoss: null,
  takeProfit: null
}
export const buyOptions: BuyOptions = { beforeSend() {}, maxPrice: '10' }

/** A listener that records what it receives. */
export function newRecorder(): {
  listener: ContractListener
  states: ContractState[]
  settled(): Promise<ContractState>
  lost: Promise<unknown>
} {
  const states: ContractState[] = []
  const settled = Promise.withResolvers<ContractState>()
  const lost = Promise.withResolvers<unknown>()
  const listener: ContractListener = {
    update(state) {
      states.push(state)
      if (state.settled) settled.resolve(state)
    },
    lost: lost.resolve
  }
  return {
    listener,
    states,
    settled: () => within('the settlement', resolve => void settled.promise.then(resolve)),
    lost: lost.promise
  }
}

export const ownedBy = ({ accountId }: BrokerAccount) => simulator.ledger().filter(each => each.loginid === accountId)

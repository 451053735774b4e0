// The newer dialect: a token buys, over REST, a one-time address of an account's socket; a connection to it needs no
// further authorisation. The conversation itself is the first dialect's, mapped by mapping.ts. Market data has a
// public socket of its own.
import type { Grant } from '../engine/accounts.ts'
import { type CallQuotas, Quota } from '../engine/quota.ts'
import type { AppId, SimulatedAccount } from '../engine/records.ts'
import { ClientConnection } from '../v3/connection.ts'
import { type Peer, type SimulatedV3Options, V3 } from '../v3/v3.ts'
import { nextMapping } from './mapping.ts'

/** The header that carries the application id here. */
export const APP_ID_HEADER = 'Broker-App-ID'

/** The budgets the broker published for this dialect. */
export const nextLimits: CallQuotas = {
  trading: { minute: 360, hour: 14_400 },
  money: { minute: 100, hour: 2_000 },
  lists: { minute: 30, hour: 1_500 },
  general: { minute: 220, hour: 14_400 }
}

interface SimulatedNextOptions extends Omit<SimulatedV3Options, 'quota' | 'mapping'> {
  /** null: no limits, on sockets neither. */
  limits: CallQuotas | null
}

interface SocketTicket {
  grant: Grant
  appId: AppId
  untilMs: number
}

/** The client admitted by an address: an account's owner, or anyone for market data. */
interface AdmittedClient {
  grant: Grant | null
  appId: AppId
}

const TICKET_MS = 120_000
const MAX_TICKETS = 50_000
const SOCKETS_OF_USER = 5
const ROOT = '/trading/v1/options/ws/'

export class Next {
  /** The conversations. */
  readonly front: V3
  readonly limited: boolean
  /** Refusals of one too many: REST calls, and sockets of a user. */
  readonly refused = { rest: 0, sockets: 0 }
  /** REST calls received, the refused ones among them. */
  restCalls = 0
  #tickets = new Map<string, SocketTicket>()
  #sockets = new Map<number, number>()

  constructor({ limits, ...options }: SimulatedNextOptions) {
    this.limited = limits !== null
    this.front = new V3({
      ...options,
      // Ids of the two dialects must not be alike.
      seed: (options.seed ?? 1) + 1_000,
      quota: new Quota(options.engine.clock, limits),
      mapping: nextMapping
    })
  }

  /** The path and query by which the account's socket is opened once, within two minutes. */
  issue(grant: Grant, appId: AppId): string {
    const { clock } = this.front.engine
    if (this.#tickets.size >= MAX_TICKETS) this.#tickets.clear()
    const otp = this.front.newId().replaceAll('-', '')
    this.#tickets.set(otp, { grant, appId, untilMs: clock.wall() + TICKET_MS })
    return `${ROOT}${kindOf(grant.account)}?otp=${otp}`
  }

  /** Whether a path is one of this dialect's sockets. */
  owns(path: string): boolean {
    return path.startsWith(ROOT)
  }

  /** Uses an address up; returns the status of the refusal where the address is invalid. */
  admit({ pathname, searchParams }: URL): AdmittedClient | 400 | 401 | 404 {
    const kind = pathname.slice(ROOT.length)
    if (kind === 'public') return { grant: null, appId: 0 }
    if (kind !== 'demo' && kind !== 'real') return 404
    const otp = searchParams.get('otp')
    if (!otp) return 400
    const ticket = this.#tickets.get(otp)
    this.#tickets.delete(otp)
    if (!ticket || ticket.untilMs < this.front.engine.clock.wall()) return 401
    const { account } = ticket.grant
    if (kindOf(account) !== kind) return 401
    if (this.limited && (this.#sockets.get(account.userId) ?? 0) >= SOCKETS_OF_USER) {
      this.refused.sockets++
      return 400
    }
    return ticket
  }

  /** Begins the conversation of an admitted client; call `left` at its end. */
  connect({ grant, appId }: AdmittedClient, peer: Peer): { connection: ClientConnection; left: () => void } {
    const connection = new ClientConnection(this.front, appId, peer)
    if (!grant) return { connection, left: () => {} }
    const { loginid, userId } = grant.account
    connection.grants.set(loginid, grant)
    const count = (by: number) => this.#sockets.set(userId, (this.#sockets.get(userId) ?? 0) + by)
    count(1)
    return { connection, left: () => void count(-1) }
  }
}

/** Play money or real. */
export function kindOf(account: SimulatedAccount): 'demo' | 'real' {
  return account.isVirtual ? 'demo' : 'real'
}

// The newer dialect's authorisation server, as far as a service needs it: a refresh token buys a token that ends, and the
// refresh token that follows it. Each is good once. A refresh token of the form simrefresh-<loginid> is known from the start.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Next } from './next.ts'

const REFRESH = /^simrefresh-([A-Z]{2,4}[0-9]{1,10})(?:-\d+)?$/
const MAX_BODY_BYTES = 65_536
const MAX_USED = 100_000

export class OAuth {
  /** Lifetime of the tokens it issues; null: they do not expire. */
  tokenSeconds: number | null = 3_600
  /** Whether its responses state that lifetime, which no document of the broker promises. */
  statesLife = true
  /** While set, every request gets this status. */
  failing: number | null = null
  /** Number of exchanges requested. */
  requests = 0
  /** Refresh tokens that are good under one client alone, as they are issued: by the user's login id. All others are good under any. */
  readonly clients = new Map<string, string>()
  readonly #next: Next
  readonly #revoked: readonly unknown[]
  readonly #used = new Set<string>()
  #given = 0

  constructor(next: Next, revokedAppIds: readonly unknown[]) {
    this.#next = next
    this.#revoked = revokedAppIds
  }

  /** Makes a refresh token, used or not, worthless. */
  revoke(refreshToken: string): void {
    this.#used.add(refreshToken)
  }

  /** Handles POST /oauth2/token. */
  async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request as AsyncIterable<Buffer>) {
      text += chunk
      if (text.length > MAX_BODY_BYTES) return send(response, 400, { error: 'invalid_request' })
    }
    this.requests += 1
    const down = this.#next.front.faults.settings.down ? 503 : this.failing
    if (down !== null) return send(response, down, { error: 'temporarily_unavailable' })
    const form = new URLSearchParams(text)
    const clientId = form.get('client_id') ?? ''
    if (!/^application\/x-www-form-urlencoded\b/.test(request.headers['content-type'] ?? ''))
      return send(response, 400, { error: 'invalid_request' })
    if (form.get('grant_type') !== 'refresh_token') return send(response, 400, { error: 'unsupported_grant_type' })
    if (!/^(?=.*[A-Za-z])[\w-]{1,64}$/.test(clientId) || this.#revoked.includes(clientId))
      return send(response, 401, { error: 'invalid_client' })
    const refreshToken = form.get('refresh_token') ?? ''
    const [, loginid] = REFRESH.exec(refreshToken) ?? []
    const foreign = loginid !== undefined && (this.clients.get(loginid) ?? clientId) !== clientId
    if (loginid === undefined || foreign || this.#used.has(refreshToken))
      return send(response, 400, { error: 'invalid_grant' })
    if (this.#used.size >= MAX_USED) this.#used.clear()
    this.#used.add(refreshToken)
    const n = ++this.#given
    const ends = Math.floor(this.#next.front.engine.clock.wall() / 1000) + (this.tokenSeconds ?? 0)
    send(response, 200, {
      access_token: this.tokenSeconds === null ? `sim-${loginid}-r${n}` : `sim-${loginid}-x${ends}-r${n}`,
      refresh_token: `simrefresh-${loginid}-${n}`,
      token_type: 'bearer',
      ...(this.tokenSeconds === null || !this.statesLife ? {} : { expires_in: this.tokenSeconds })
    })
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(JSON.stringify(body))
}

// The simulated broker's controls over HTTP, in JSON: its books, its faults, its market, its customers. Only on the
// loopback address, for tests and manual use; the real broker has nothing like it.
import { once } from 'node:events'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Ajv, type ValidateFunction } from 'ajv'
import { effects } from './effects.ts'
import type { AccountPreset } from './engine/accounts.ts'
import { currencies, printUnits, toAmount } from './engine/currencies.ts'
import type { Engine } from './engine/engine.ts'
import { ledgerEntry } from './engine/ledger.ts'
import type { Quota } from './engine/quota.ts'
import { simulatorAjv } from './engine/shapes.ts'
import { type SimulatedSymbol, symbols } from './engine/symbols.ts'
import type { FaultSettings, Faults } from './faults.ts'
import type { Next } from './next/next.ts'
import { addressOf } from './request-address.ts'
import type { V3 } from './v3/v3.ts'

interface Controlled {
  engine: Engine
  faults: Faults
  quota: Quota
  v3: V3
  next: Next
}

interface Route {
  body?: object
  handle(input: Record<string, unknown>, controlled: Controlled): unknown
}

/** A wrong control call: 400 with this text. */
class ControlError extends Error {}

const MAX_BODY_BYTES = 1_048_576
const PAGE = 1_000
const number = { type: 'number', minimum: 0 }
const text = { type: 'string', minLength: 1, maxLength: 200 }
const bool = { type: 'boolean' }
const codes = { type: 'array', items: { type: 'string', enum: [...symbols.keys()] } }
const rule = shape(
  {
    effect: { type: 'string', enum: Object.keys(effects) },
    call: text,
    class: { type: 'string', enum: ['pricing', 'outcome', 'general', 'trading', 'money', 'lists'] },
    loginid: text,
    symbol: text,
    appId: { type: ['integer', 'string'], minimum: 0, maxLength: 64 },
    probability: { type: 'number', minimum: 0, maximum: 1 },
    times: { type: 'integer', minimum: 1 },
    code: text,
    message: text,
    details: { type: 'object' },
    set: { type: 'object' },
    delayMs: number
  },
  ['effect']
)

const stateRule = shape({
  set: { type: 'object' },
  drop: { type: 'array', items: text, maxItems: 100 },
  when: { type: 'string', enum: ['over', 'open', 'always'] },
  loginid: text,
  contractId: number,
  probability: { type: 'number', minimum: 0, maximum: 1 },
  times: { type: 'integer', minimum: 1 }
})

const routes: Record<string, Route> = {
  'GET /control/state': { handle: (_input, controlled) => state(controlled) },
  'GET /control/faults': { handle: (_input, { faults }) => faults.settings },
  // Changes what it names; `rules` and `states` replace all of theirs, `add` puts one rule behind those there are.
  'POST /control/faults': {
    body: shape({
      latencyMs: number,
      jitterMs: number,
      down: bool,
      marketClosedCode: { type: 'string', enum: ['MarketIsClosed', 'ContractBuyValidationError', 'InvalidtoBuy'] },
      rules: { type: 'array', items: rule },
      states: { type: 'array', items: stateRule },
      add: rule,
      settlementDelayMs: number,
      frozen: codes,
      suspended: codes
    }),
    handle: setFaults
  },
  'DELETE /control/faults': {
    handle(_input, controlled) {
      controlled.faults.reset()
      controlled.engine.market.sessions.freeze([])
      controlled.engine.market.sessions.suspend([])
      return state(controlled)
    }
  },
  'POST /control/market': {
    body: shape({ symbol: text, open: { type: ['boolean', 'null'] }, seconds: number }, ['symbol', 'open']),
    handle(input, controlled) {
      const until =
        input.seconds === undefined ? Infinity : controlled.engine.clock.wall() + Number(input.seconds) * 1000
      controlled.engine.market.sessions.force(symbolOf(input.symbol), input.open as boolean | null, until)
      return state(controlled)
    }
  },
  'POST /control/ticks': {
    body: shape(
      { symbol: text, quotes: { type: 'array', items: { type: 'number', exclusiveMinimum: 0 }, maxItems: 10_000 } },
      ['symbol', 'quotes']
    ),
    handle(input, controlled) {
      controlled.engine.market.script(symbolOf(input.symbol), input.quotes as number[])
      return state(controlled)
    }
  },
  // Revokes or restores a token, or every token of a login id.
  'POST /control/tokens': {
    body: shape({ revoke: text, restore: text }),
    handle(input, controlled) {
      if (input.revoke) controlled.engine.accounts.revoke(input.revoke as string)
      if (input.restore) controlled.engine.accounts.restore(input.restore as string)
      return state(controlled)
    }
  },
  'POST /control/accounts': {
    body: shape(
      {
        loginid: { type: 'string', pattern: '^[A-Z]{2,4}[0-9]{1,10}$' },
        token: { type: 'string', minLength: 10, maxLength: 128 },
        currency: { type: 'string', enum: currencies },
        balance: number,
        disabled: bool,
        scopes: {
          type: 'array',
          items: { type: 'string', enum: ['read', 'trade', 'trading_information', 'payments', 'admin'] }
        }
      },
      ['loginid']
    ),
    handle(input, { engine }) {
      const account = engine.accounts.create(input as unknown as AccountPreset)
      return {
        loginid: account.loginid,
        balance: toAmount(account.balanceCents, account.currency),
        disabled: account.disabled
      }
    }
  },
  // What a dollar is worth in a currency; null takes the rate away.
  'POST /control/rates': {
    body: shape(
      { currency: { type: 'string', enum: currencies }, rate: { type: ['number', 'null'], exclusiveMinimum: 0 } },
      ['currency', 'rate']
    ),
    handle(input, { engine }) {
      engine.rates.set(input.currency as string, input.rate as number | null)
      return engine.rates.from('USD')
    }
  },
  // What applications charge from now on: percent of the payout, taken from it or paid on top of the stake; and how long after
  // a purchase it is reported.
  'POST /control/markup': {
    body: shape({ pct: { ...number, maximum: 3 }, onTop: bool, reportDelayMs: number }, ['pct', 'onTop']),
    handle(input, { engine }) {
      engine.markup = { pct: input.pct as number, onTop: input.onTop as boolean }
      const { markups } = engine.books
      markups.reportDelayMs = (input.reportDelayMs as number | undefined) ?? markups.reportDelayMs
      return { ...engine.markup, reportDelayMs: markups.reportDelayMs }
    }
  },
  'POST /control/maintenance': {
    body: shape({ dropAfterMs: number }, ['dropAfterMs']),
    handle(input, controlled) {
      for (const front of [controlled.v3, controlled.next.front]) front.maintain(input.dropAfterMs as number)
      return state(controlled)
    }
  },
  'POST /control/disconnect': {
    body: shape({ loginid: text }),
    handle(input, { v3, next }) {
      const loginid = input.loginid as string | undefined
      return { cut: v3.cutAll(loginid) + next.front.cutAll(loginid) }
    }
  }
}

const ajv = new Ajv(simulatorAjv)
const checks = new Map<object, ValidateFunction>()

/** Serves the control calls; everything else is 404. */
export function control(controlled: Controlled): RequestListener {
  return (request, response) => {
    respond(controlled, request, response).catch((error: unknown) => {
      if (response.headersSent) {
        response.destroy()
        return
      }
      const known = error instanceof ControlError || error instanceof RangeError
      reply(response, known ? 400 : 500, { error: error instanceof Error ? error.message : String(error) })
    })
  }
}

async function respond(controlled: Controlled, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = addressOf(request)
  if (request.method === 'GET' && url.pathname === '/control/ledger') {
    await sendLedger(controlled.engine, url.searchParams, response)
    return
  }
  const route = routes[`${request.method} ${url.pathname}`]
  if (!route) {
    reply(response, 404, {
      error: `There is no ${request.method} ${url.pathname}`,
      calls: ['GET /control/ledger', ...Object.keys(routes)]
    })
    return
  }
  const input = route.body ? await readBody(request, route.body) : {}
  reply(response, 200, route.handle(input, controlled))
}

function state({ engine, faults, quota, v3, next }: Controlled): unknown {
  const { market, accounts } = engine
  const all = [...symbols.values()]
  let open = 0
  for (const account of accounts.all.values()) open += account.open.size
  return {
    now: engine.clock.wall(),
    siteStatus: v3.siteStatus,
    connections: v3.connections.size + next.front.connections.size,
    contracts: { known: engine.contracts.size, open },
    accounts: [...accounts.all.values()].map(account => ({
      loginid: account.loginid,
      currency: account.currency,
      balance: printUnits(account.balanceCents, account.currency),
      isVirtual: account.isVirtual,
      disabled: account.disabled,
      open: account.open.size
    })),
    faults: faults.settings,
    settlementDelayMs: engine.lives.settlementDelayMs,
    limits: quota.limits ?? 'off',
    refused: { calls: quota.refused + next.front.quota.refused, ...next.refused },
    closed: all.filter(symbol => !market.sessions.isOpen(symbol)).map(symbol => symbol.code),
    suspended: all.filter(symbol => market.sessions.isSuspended(symbol)).map(symbol => symbol.code),
    frozen: market.sessions.frozen().map(symbol => symbol.code)
  }
}

function setFaults(input: Record<string, unknown>, controlled: Controlled): unknown {
  const { engine, faults } = controlled
  const { add, settlementDelayMs, frozen, suspended, ...settings } = input
  faults.set(settings as Partial<FaultSettings>)
  if (add) faults.add(add as FaultSettings['rules'][number])
  if (settlementDelayMs !== undefined) engine.lives.settlementDelayMs = settlementDelayMs as number
  if (frozen) engine.market.sessions.freeze((frozen as string[]).map(symbolOf))
  if (suspended) engine.market.sessions.suspend((suspended as string[]).map(symbolOf))
  return state(controlled)
}

/** Writes the ledger as one JSON array, a page at a time; `after` and `limit` cut out a part of it. */
async function sendLedger(engine: Engine, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const after = Number(query.get('after') ?? 0)
  const limit = Number(query.get('limit') ?? Infinity)
  if (Number.isNaN(after) || Number.isNaN(limit)) throw new ControlError('after and limit must be numbers')
  response.setHeader('content-type', 'application/json')
  response.write('[')
  let page: string[] = []
  let sent = 0
  const flush = async (end: boolean) => {
    const text = (sent > page.length ? ',' : '') + page.join(',')
    if (page.length > 0 && !response.write(text)) await Promise.race([once(response, 'drain'), once(response, 'close')])
    page = []
    if (end) response.end(']')
  }
  for (const contract of engine.contracts.values()) {
    if (contract.id <= after) continue
    if (sent >= limit) break
    page.push(JSON.stringify(ledgerEntry(contract)))
    sent++
    if (page.length === PAGE) await flush(false)
  }
  await flush(true)
}

async function readBody(request: IncomingMessage, schema: object): Promise<Record<string, unknown>> {
  let size = 0
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new ControlError('The body is too large')
    chunks.push(chunk)
  }
  let body: unknown
  try {
    body = JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}')
  } catch (cause) {
    throw new ControlError('The body is not JSON', { cause })
  }
  let check = checks.get(schema)
  if (!check) {
    check = ajv.compile(schema)
    checks.set(schema, check)
  }
  if (!check(body)) throw new ControlError(ajv.errorsText(check.errors, { dataVar: 'body' }))
  return body as Record<string, unknown>
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function symbolOf(code: unknown): SimulatedSymbol {
  const symbol = symbols.get(code as string)
  if (!symbol) throw new ControlError(`There is no symbol ${String(code)}`)
  return symbol
}

function shape(properties: Record<string, object>, required: string[] = []): object {
  return { type: 'object', properties, required, additionalProperties: false }
}

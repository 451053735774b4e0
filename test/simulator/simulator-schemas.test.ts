// Our compact request schemas against the broker's own: what one refuses the other refuses. Needs the shared
// folder; without it everything here is skipped with a note.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ValidateFunction } from 'ajv'
import draft04 from 'ajv-draft-04'
import fc from 'fast-check'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { calls, complaints } from '../../worker/simulator/engine/requests.ts'
import type { CallRule, Complaints } from '../../worker/simulator/engine/shapes.ts'
import { nextCalls, nextComplaints } from '../../worker/simulator/next/requests.ts'
import { readSchema, type SocketFrame, schemaCheck, schemaDir } from '../broker/broker-socket.ts'
import { sharedFolder } from '../support/shared.ts'

const RUNS = Number(process.env.SCHEMA_RUNS ?? 1_500)
const schemas = suite('request schemas')
// The documents name these calls, and the folder holds no schema of them.
const unpublished = new Set(
  ['exchange_rates', 'get_account_status', 'app_markup_details', 'app_markup_statistics'].filter(
    call => schemaDir === null || !existsSync(join(schemaDir, call))
  )
)

// Things people send: the right ones, the nearly right ones and the absurd ones.
const oddities: unknown[] = [
  null,
  true,
  0,
  1,
  -1,
  1.5,
  2,
  0.35,
  60,
  61,
  500,
  501,
  999,
  1000,
  99_999_999,
  100_000_000,
  9_999_999_999,
  10_000_000_000,
  '',
  '1',
  '0',
  '5',
  '+0.1',
  '-12.5',
  '1e5',
  'abc',
  'R_100',
  'R 100',
  'x',
  'a-b',
  'CR1234567',
  'cr12',
  'CR',
  'USD',
  'current',
  'all',
  'latest',
  'today',
  '2026-03-04',
  '2026-13-04',
  '1700000000',
  'stake',
  't',
  'CALL',
  'MULTUP',
  'SNOWUP',
  'ticks',
  'candles',
  'brief',
  'x'.repeat(40),
  'y'.repeat(129),
  [],
  [1],
  ['CALL'],
  ['CALL', 'CALL'],
  ['SNOWUP'],
  ['ticks', 'balance'],
  ['token-1'],
  Array.from({ length: 26 }, () => 'token-1'),
  {},
  { take_profit: 1 },
  { take_profit: null, stop_loss: 2 },
  { take_profit: '1' },
  { other: 1 }
]

/** Values a property's own schema names, and the example's. */
function likely(schema: SocketFrame, example: unknown): unknown[] {
  const named = [schema, ...(schema.oneOf ?? [])].flatMap((each: SocketFrame) => each.enum ?? [])
  return [...named, ...(example === undefined ? [] : [example])]
}

/** What is compared with what: our rows of a dialect, and the broker's schemas of it. */
interface Compared {
  name: string
  calls: Record<string, CallRule>
  complaints: Complaints
  send(call: string): SocketFrame
  check(call: string): ValidateFunction
  /** A request that is right. */
  sample(call: string): SocketFrame
}

/** A valid request of the call: the example, and where that leaves the parameters out, some. */
function sampleOf(call: string): SocketFrame {
  const example = readSchema(call, 'example')
  if (call !== 'buy') return example
  const { proposal, ...parameters } = readSchema('proposal', 'example')
  return { ...example, buy: '1', parameters }
}

/** Requests from a valid one by changing, adding and leaving out a few properties. */
function variants(dialect: Compared, call: string): fc.Arbitrary<SocketFrame> {
  const send = dialect.send(call)
  const sample = dialect.sample(call)
  const change = (schema: SocketFrame, from: SocketFrame) => {
    const keys = [...Object.keys(schema.properties), 'unknown_key']
    return fc.array(
      fc.constantFrom(...keys).chain(key => {
        const values = [...likely(schema.properties[key] ?? {}, from[key]), ...oddities]
        return fc.record({ key: fc.constant(key), drop: fc.nat(5), value: fc.constantFrom(...values) })
      }),
      { maxLength: 3 }
    )
  }
  const inner = send.properties.parameters as SocketFrame | undefined
  const changes = fc.tuple(change(send, sample), change(inner ?? { properties: {} }, sample.parameters ?? {}))
  return changes.map(([outside, inside]) => {
    const request = apply(sample, outside)
    const { parameters } = request
    if (
      inner &&
      inside.length > 0 &&
      typeof parameters === 'object' &&
      parameters !== null &&
      !Array.isArray(parameters)
    ) {
      request.parameters = apply(parameters, inside)
    }
    return request
  })
}

function apply(from: SocketFrame, changes: { key: string; drop: number; value: unknown }[]): SocketFrame {
  const request = { ...from }
  for (const { key, drop, value } of changes) {
    if (drop === 0) delete request[key]
    else request[key] = value
  }
  return request
}

const v3: Compared = {
  name: 'v3',
  calls,
  complaints,
  send: call => readSchema(call, 'send'),
  check: call => schemaCheck(call, 'send'),
  sample: sampleOf
}

const nextDir = sharedFolder('broker-api/next/schemas')
const ajv = new draft04.default({ strict: false, allErrors: true })
const readNext = (call: string): SocketFrame =>
  JSON.parse(readFileSync(join(nextDir as string, `${call}_request.schema.json`), 'utf8'))

const terms = { contract_type: 'CALL', currency: 'USD', underlying_symbol: 'R_100', amount: 10, basis: 'stake' }
const samples: Record<string, SocketFrame> = {
  active_symbols: { active_symbols: 'brief', contract_type: ['CALL'] },
  contracts_for: { contracts_for: 'R_100' },
  trading_times: { trading_times: '2026-03-04' },
  proposal: { proposal: 1, ...terms, duration: 5, duration_unit: 't', subscribe: 1 },
  buy: { buy: '1', price: 10, parameters: { ...terms, duration: 5, duration_unit: 't' }, subscribe: 1 },
  proposal_open_contract: { proposal_open_contract: 1, contract_id: 5, subscribe: 1 },
  sell: { sell: 5, price: 0 },
  cancel: { cancel: 5 },
  contract_update: { contract_update: 1, contract_id: 5, limit_order: { take_profit: 1, stop_loss: null } },
  transaction: { transaction: 1, subscribe: 1 },
  ticks_history: { ticks_history: 'R_100', end: 'latest', style: 'candles', granularity: 60, adjust_start_time: 1 },
  ticks: { ticks: ['R_100'], subscribe: 1 },
  forget: { forget: 'x'.repeat(32) },
  forget_all: { forget_all: ['ticks'] }
}
const next: Compared = {
  name: 'next',
  calls: nextCalls,
  complaints: nextComplaints,
  send: readNext,
  check: call => ajv.compile(readNext(call)),
  sample: call => samples[call] ?? { [call]: 1 }
}

for (const { name, calls, complaints } of [v3, next]) {
  for (const call of Object.keys(calls).filter(call => !unpublished.has(call))) {
    schemas(`${name} ${call}: an unknown key and a missing one are named`, () => {
      const [needed] = calls[call]!.required as [string]
      const details = complaints(call, { unknown_key: 1 }, 'strict')!
      assert.equal([details.unknown_key, needed in details], ['Properties not allowed.', true])
    })
  }
}

for (const [dialect, dir] of [
  [v3, schemaDir],
  [next, nextDir]
] as const) {
  if (dir === null) {
    console.log(`SKIPPED: our ${dialect.name} request schemas against the broker's (no ../shared, no SHARED_DIR)`)
    continue
  }
  const { name, calls, complaints } = dialect
  for (const call of Object.keys(calls).filter(call => !unpublished.has(call))) {
    schemas(`${name} ${call}: the example is accepted`, () => {
      assert.is(complaints(call, dialect.sample(call), 'strict'), null)
    })

    schemas(`${name} ${call}: the same keys, the same needs`, () => {
      const send = dialect.send(call)
      const rule = calls[call]!
      const keys = [...Object.keys(rule.fields), ...(rule.loginid ? ['loginid'] : []), 'passthrough', 'req_id']
      assert.equal(keys.sort(), Object.keys(send.properties).sort())
      assert.equal([...rule.required].sort(), [...send.required].sort())
      assert.equal(rule.scopes === null, send.auth_required === 0)
      if (rule.scopes) assert.equal([...rule.scopes].sort(), [...send.auth_scopes].sort())
    })

    schemas(`${name} ${call}: what one refuses the other refuses`, () => {
      const theirs = dialect.check(call)
      let refused = 0
      fc.assert(
        fc.property(variants(dialect, call), request => {
          const ours = complaints(call, request, 'strict')
          assert.is(
            ours === null,
            theirs(request),
            `${JSON.stringify(request)} ${JSON.stringify(ours ?? theirs.errors)}`
          )
          if (ours) refused++
        }),
        { numRuns: RUNS, seed: 4 }
      )
      assert.ok(refused > RUNS / 10, `only ${refused} of ${RUNS} were refused`)
    })
  }
}

schemas.run()

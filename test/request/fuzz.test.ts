// The fuzzer in short: a few requests of every class to every operation of real processes, and nothing wrong; and
// whatever is put in to be wrong is found. The long form is `make fuzz`.
//   SEED=…   repeats a run
// test in the full run only
// test time-out: 180 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { runCampaign } from '../fuzz/campaign.ts'
import { type Fault, startFaultyProxy } from '../fuzz/faulty-proxy.ts'
import { complaintsOf } from '../fuzz/logs.ts'
import { describeReport } from '../fuzz/report.ts'
import { openStack, through } from '../fuzz/stack.ts'
import { closeAll } from '../support/harness.ts'
import { seed } from '../support/seed.ts'

const { scene, api, worker, auditShared } = await openStack()
const proxy = await startFaultyProxy(scene.address)

const fuzzing = suite(`fuzzing, seed ${seed}`)

fuzzing('finds nothing wrong in any operation, with any class of requests', async () => {
  const report = await runCampaign({ scene, seed, requests: 1200 })
  const lines = [...describeReport(report)]
  assert.equal(report.violations, [], lines.slice(3).join('\n'))
  assert.is(report.byOperation.size, scene.description.operations.length)
  console.log(lines.at(-1))
  assert.equal(complaintsOf([api, worker]), [])
  assert.equal(await auditShared(), [])
})

const finding = suite('a fault put in is found')

const without = (name: string) => (response: { body: Record<string, unknown> }) => delete response.body[name]
/** Another response in place of the service's; an error carries the request's id, as it has to. */
const turnedInto =
  (status: number, body: Record<string, unknown>): Fault['answered'] =>
  response => {
    response.status = status
    response.body = 'error' in body ? { ...body, requestId: response.headers['x-request-id'] } : body
  }
const faults: [string, { check: string; operations: string[]; kinds: string[]; fault: Fault }][] = [
  [
    'a field missing from a response',
    {
      check: 'response_schema_conformance',
      operations: ['getMe'],
      kinds: ['valid'],
      fault: { answered: without('plan') }
    }
  ],
  [
    'a field nobody described',
    {
      check: 'response_schema_conformance',
      operations: ['listAccounts'],
      kinds: ['valid'],
      fault: { answered: ({ body }) => Object.assign(body, { internal: 1 }) }
    }
  ],
  [
    'a status nobody described',
    {
      check: 'status_code_conformance',
      operations: ['closeOrder'],
      kinds: ['valid'],
      fault: {
        answered(response) {
          response.status = 410
        }
      }
    }
  ],
  [
    'an error of the server',
    {
      check: 'not_a_server_error',
      operations: ['getUsage'],
      kinds: ['valid'],
      fault: { answered: turnedInto(500, { error: 'INTERNAL', message: 'x' }) }
    }
  ],
  [
    'a content of another type',
    {
      check: 'content_type_conformance',
      operations: ['getMe'],
      kinds: ['valid'],
      fault: { answered: ({ headers }) => Object.assign(headers, { 'content-type': 'text/html' }) }
    }
  ],
  [
    'a response without its request id',
    {
      check: 'response_headers_conformance',
      operations: ['getMe'],
      kinds: ['valid'],
      fault: { answered: ({ headers }) => delete headers['x-request-id'] }
    }
  ],
  [
    'a header field of another form',
    {
      check: 'response_headers_conformance',
      operations: ['getMe'],
      kinds: ['valid'],
      fault: { answered: ({ headers }) => Object.assign(headers, { ratelimit: 'plenty' }) }
    }
  ],
  [
    'wrong data let through',
    {
      check: 'negative_data_rejection',
      operations: ['listOrders'],
      kinds: ['broken'],
      fault: { answered: turnedInto(200, { data: [], nextCursor: null }) }
    }
  ],
  [
    'right data refused',
    {
      check: 'positive_data_acceptance',
      operations: ['listTradeHistory'],
      kinds: ['valid'],
      fault: { answered: turnedInto(400, { error: 'VALIDATION_FAILED', message: 'x' }) }
    }
  ],
  [
    'a credential nobody looks at',
    {
      check: 'ignored_auth',
      operations: ['listTemplates'],
      kinds: ['credentials'],
      fault: { asked: headers => Object.assign(headers, { authorization: `Bearer ${scene.key}` }) }
    }
  ],
  [
    'a 405 without Allow',
    {
      check: 'unsupported_method',
      operations: ['getMe'],
      kinds: ['methods'],
      fault: { answered: ({ headers }) => delete headers.allow }
    }
  ],
  [
    'something made that is not there',
    {
      check: 'ensure_resource_availability',
      operations: [],
      kinds: ['lifecycle'],
      fault: {
        answered(response, { method, path }) {
          if (method === 'GET' && path === '/v1/community/messages') response.body = { data: [] }
        }
      }
    }
  ],
  [
    'something deleted that is still there',
    {
      check: 'use_after_free',
      operations: [],
      kinds: ['lifecycle'],
      fault: {
        answered(response, { method, path }) {
          if (method !== 'DELETE' || !path.startsWith('/v1/community/messages/')) return
          response.status = 200
          response.body = { messageId: path.split('/').at(-1), deleted: true }
        }
      }
    }
  ],
  [
    'a revoked key that is not listed',
    {
      check: 'use_after_free',
      operations: [],
      kinds: ['lifecycle'],
      fault: {
        answered({ body }, { method, path }) {
          if (method === 'GET' && path === '/v1/keys')
            body.data = body.data.filter(({ revokedAt }: { revokedAt: string | null }) => revokedAt === null)
        }
      }
    }
  ],
  [
    "another partner's record taken for one's own",
    {
      check: 'other_partners',
      operations: ['listAccounts'],
      kinds: ['other-partners'],
      fault: { answered: turnedInto(200, { data: [] }) }
    }
  ],
  [
    "another partner's orders returned",
    {
      check: 'leak',
      operations: ['listOrders'],
      kinds: ['other-partners'],
      fault: { asked: headers => Object.assign(headers, { authorization: `Bearer ${scene.otherKey}` }) }
    }
  ],
  [
    'an owner refused because of what another did on the account',
    {
      check: 'shared_account',
      operations: ['getBalance'],
      kinds: ['shared-account'],
      fault: { answered: turnedInto(404, { error: 'BROKER_DISCONNECTED', message: 'x' }) }
    }
  ],
  [
    'a stranger served on the account it named',
    {
      check: 'shared_account',
      operations: ['getBalance'],
      kinds: ['shared-account'],
      fault: {
        answered(response) {
          response.status = 200
        }
      }
    }
  ],
  [
    "an owner shown the other owner's name",
    {
      check: 'leak',
      operations: ['listAccounts'],
      kinds: ['shared-account'],
      fault: { answered: ({ body }) => Object.assign(body, { data: [scene.sharing.parties[0]?.traderExternalId] }) }
    }
  ],
  [
    'an order whose outcome never becomes known',
    {
      check: 'not_a_server_error',
      operations: ['placeBinaryOrder'],
      kinds: ['valid'],
      fault: { answered: turnedInto(502, { error: 'BROKER_UPSTREAM', message: 'Not yet.', status: 'PENDING' }) }
    }
  ],
  [
    'a stack in an error',
    {
      check: 'leak',
      operations: ['getBalance'],
      kinds: ['missing'],
      fault: {
        answered: ({ body }) => Object.assign(body, { message: 'boom\n    at handle (api/traders/balance.ts:12:3)' })
      }
    }
  ],
  [
    'a field set that is not the caller’s to set',
    {
      check: 'mass_assignment',
      operations: ['updateCreatorBot', 'postMessage'],
      kinds: ['mass-assignment'],
      fault: {
        answered(response) {
          if (response.status === 200) response.body.content = 'assigned-by-the-fuzzer'
        }
      }
    }
  ]
]

for (const [name, { check, operations, kinds, fault }] of faults)
  finding(name, async () => {
    proxy.fault = fault
    const only = { kinds, operations }
    const requests = kinds.includes('lifecycle') || kinds.includes('other-partners') ? 80 : 20
    const { violations } = await runCampaign({ scene: through(scene, proxy.address), seed, requests, only })
    assert.ok(
      violations.some(violation => violation.check === check),
      `${check} not among ${JSON.stringify(violations)}`
    )
    assert.match(violations[0]?.curl ?? '', /curl .*127\.0\.0\.1/)
  })

finding('and a proxy that does no wrong is found innocent', async () => {
  proxy.fault = {}
  const { violations } = await runCampaign({ scene: through(scene, proxy.address), seed: seed + 1, requests: 200 })
  assert.equal(violations, [])
})

finding.after(closeAll)
fuzzing.run()
finding.run()

// The machine-readable description.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { describe } from '../../api/description/spec.ts'
import { getSpec, operations } from '../../api/operations.ts'
import { Exchange } from '../../schemas/traders/accounts.ts'
import { closeAll, openHarness } from '../support/harness.ts'

interface SpecDocument {
  security: object[]
}

const harness = await openHarness()
const spec = suite('GET /v1/_spec')

spec('needs a key, and no scope', async () => {
  const partner = await harness.makePartner({ scopes: [] })
  const { status, body } = await partner.call(getSpec)
  assert.is(status, 200)
  assert.is(body.openapi, '3.1.0')
  assert.equal(body, JSON.parse(JSON.stringify(describe(operations, harness.services.config.baseUrl))))
})

spec('states for each operation which credentials it takes', async () => {
  const { body } = await (await harness.makePartner()).call(getSpec)
  assert.equal(body.paths['/v1/me'].get.security, [{ key: [] }])
  assert.equal(body.paths['/v1/keys'].post.security, [{ session: [] }])
  assert.equal(body.paths['/v1/traders/me'].get.security, [{ key: [], trader: [] }])
  assert.equal(body.paths['/v1/community/messages'].post.security, [{ key: [] }, { key: [], trader: [] }])
  for (const { parameters: _, ...path } of Object.values(body.paths as Record<string, Record<string, SpecDocument>>))
    for (const { security } of Object.values(path))
      for (const scheme of security.flatMap(Object.keys)) assert.ok(body.components.securitySchemes[scheme], scheme)
})

spec('takes any text as the e-mail of an exchange, and a change of a bot without a body', () => {
  const { paths } = describe(operations, 'https://api.example.com') as unknown as {
    paths: Record<string, Record<string, { requestBody: { required: boolean } }>>
  }
  assert.is(paths['/v1/marketplace/creator/bots/{id}']?.patch?.requestBody.required, false)
  assert.equal(Object.keys(Exchange.properties.email).sort(), ['description', 'examples', 'maxLength', 'type'])
})

spec('has every reference lead somewhere', async () => {
  const { body } = await (await harness.makePartner()).call(getSpec)
  const references = [...JSON.stringify(body).matchAll(/"\$ref":"#([^"]+)"/g)].map(([, path]) => path as string)
  assert.ok(references.length > 0)
  for (const path of new Set(references)) {
    const found = path
      .split('/')
      .slice(1)
      .reduce<unknown>((part, name) => (part as Record<string, unknown>)?.[name], body)
    assert.ok(found, path)
  }
})

spec.after(closeAll)
spec.run()

// An operation that is to be taken away is marked everywhere, by one field of its row: in the description, and in the header
// fields of every response (RFC 9745 Deprecation, RFC 8594 Sunset).
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { describe } from '../../api/description/spec.ts'
import { getMe } from '../../api/me.ts'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations.ts'
import { NOTICE_MONTHS } from '../../api/request/deprecation.ts'
import { getUsage } from '../../api/usage.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const harness = await openHarness()
const partner = await harness.makePartner()
const deprecated = { since: '2026-12-01', until: '2027-12-01', instead: 'Use `GET /v1/usage`.' }

interface DescribedDeprecation {
  info: { description: string }
  paths: Record<
    string,
    Record<string, { deprecated?: boolean; description: string; responses: Record<string, { headers: object }> }>
  >
}
const described = (rows: Operation[]) => describe(rows, 'https://api.example.com') as unknown as DescribedDeprecation

const announcing = suite('a deprecated operation')

announcing('shows in every response since when, until when and where to read on', async () => {
  Object.assign(getMe, { deprecated })
  try {
    const policy = `${harness.services.config.baseUrl}/docs#/section/versions-and-deprecation`
    const refused = await fetch(`${harness.address}/v1/me`)
    assert.is(refused.status, 401)
    for (const { headers } of [await partner.call(getMe), refused]) {
      assert.is(headers.get('deprecation'), `@${Date.UTC(2026, 11, 1) / 1000}`)
      assert.is(headers.get('sunset'), 'Wed, 01 Dec 2027 00:00:00 GMT')
      assert.match(headers.get('link') ?? '', `<${policy}>; rel="deprecation"`)
      assert.match(headers.get('link') ?? '', `<${policy}>; rel="sunset"`)
    }
    assert.is((await partner.call(getUsage)).headers.get('deprecation'), null)
  } finally {
    delete getMe.deprecated
  }
  assert.is((await partner.call(getMe)).headers.get('deprecation'), null)
})

announcing('is marked in the description, with its end and what replaces it, and is in the list of the policy', () => {
  const { info, paths } = described([{ ...getMe, deprecated }, getUsage])
  const me = paths['/v1/me']?.get
  assert.is(me?.deprecated, true)
  assert.match(me?.description ?? '', 'since 2026-12-01, taken away on 2027-12-01. Use `GET /v1/usage`.')
  assert.equal(
    Object.keys(me?.responses['200']?.headers ?? {}).filter(name => /Deprecation|Sunset|Link/.test(name)),
    ['Deprecation', 'Sunset', 'Link']
  )
  assert.match(info.description, 'Deprecated now: `GET /v1/me`')
  assert.is(paths['/v1/usage']?.get?.deprecated, undefined)
})

announcing('is announced twelve months before its end', () => {
  for (const { name, deprecated: row } of operations) {
    if (!row) continue
    const least = new Date(`${row.since}T00:00:00Z`)
    least.setUTCMonth(least.getUTCMonth() + NOTICE_MONTHS)
    assert.ok(new Date(`${row.until}T00:00:00Z`) >= least, name)
  }
})

const changes = suite('the changelog')

changes('names each operation that the last release did not have', () => {
  const { info } = described(operations)
  assert.match(info.description, /\*\*Since 1\.0\.0\*\*, new operations: `[A-Z]+ \/v1\//)
  assert.match(info.description, '`POST /v1/stream/tickets`')
  assert.not.match(info.description, '`GET /v1/me`,')
})

announcing.run()
changes.after(closeAll)
changes.run()

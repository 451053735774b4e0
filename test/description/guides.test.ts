// The guides of the reference: each call they show is one that the service takes, and each path they name exists.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { guides } from '../../api/description/guides.ts'
import { operations } from '../../api/operations.ts'
import { violations } from '../../schemas/checks/validator.ts'
import { errors } from '../../schemas/errors/errors.ts'
import type { Schema } from '../../schemas/fields/fields.ts'

const BASE = 'https://api.example.com'
const text = guides(BASE, operations)

const matching = (method: string, path: string) =>
  operations.find(
    row => row.method === method && new RegExp(`^${row.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path)
  )

const reading = suite('the guides')

reading('have no placeholder left, and a heading for each subject', () => {
  assert.not.match(text, /\{(base_url|errors|added|deprecated|released)\}/)
  const subjects = [
    'Your first order',
    'Testing',
    'Waiting and polling',
    'Client',
    'Events',
    'Acting as a trader',
    'Copy trading',
    'Marketplace',
    'Going live',
    'Versions and deprecation',
    'Changelog'
  ]
  const headings = [...text.matchAll(/^# (.+)$/gm)].map(([, heading]) => heading)
  for (const subject of subjects) assert.ok(headings.includes(subject), subject)
  assert.is(new Set(headings).size, headings.length)
})

reading('show calls that the service takes, with bodies that pass', () => {
  let calls = 0
  for (const [, options = '', path = '', rest = ''] of text.matchAll(
    /curl (-X \w+ )?['"]https:\/\/api\.example\.com(\/v1[^'"?]*)(?:\?[^'"]*)?['"]((?: \\\n.*)*)/g
  )) {
    calls++
    const row = matching(options.slice(3).trim() || 'GET', path)
    assert.ok(row, `${options}${path}`)
    const body = /-d '([^']+)'/.exec(rest)?.[1]
    if (body) assert.equal(violations(row.body as Schema, JSON.parse(body)), [], path)
  }
  assert.ok(calls >= 9, String(calls))
})

reading('name operations and codes that exist', () => {
  for (const [, method = '', path = ''] of text.matchAll(/`(GET|POST|PATCH|DELETE) (\/v1[^`?]*)/g))
    assert.ok(matching(method, path), `${method} ${path}`)
  for (const [, code = ''] of text.matchAll(/`\d{3} ([A-Z_]{5,})`/g)) assert.ok(code in errors, code)
})

reading.run()

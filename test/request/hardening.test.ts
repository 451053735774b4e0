// What security depends on outside of the operations: sealed texts, the deployment files, and a guide that names its proof.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { describe } from '../../api/description/spec.ts'
import { operations } from '../../api/operations.ts'
import { parse } from '../../api/request/body.ts'
import { openVault } from '../../db/platform/crypto.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { hostile } from '../fuzz/hostile.ts'
import { kinds } from '../fuzz/kinds.ts'

const sealing = suite('a sealed text')
const vault = openVault(`k1:${Buffer.alloc(32, 7).toString('base64')}`)
const NONCE_BYTES = 12
const TAG_BYTES = 16

sealing('opens for its own row, and for no other', () => {
  const sealed = vault.seal('a token', 'broker_accounts:one')
  assert.is(vault.open(sealed, 'broker_accounts:one'), 'a token')
  assert.throws(() => vault.open(sealed, 'broker_accounts:two'))
})

sealing('is refused with any bit changed, and with a tag that is shorter than sixteen bytes', () => {
  const { keyId, sealed } = vault.seal('a token', 'row')
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
    assert.throws(() => vault.open({ keyId, sealed: changed }, 'row'))
  }
  // A text cut to its nonce and part of its tag: where the length of the tag is free, four bytes are enough for Node.
  for (const bytes of [4, 8, 12]) {
    const cut = Buffer.concat([sealed.subarray(0, NONCE_BYTES), sealed.subarray(NONCE_BYTES, NONCE_BYTES + bytes)])
    assert.throws(() => vault.open({ keyId, sealed: cut }, 'row'), /authentication tag length/)
  }
  assert.is(sealed.length, NONCE_BYTES + TAG_BYTES + 'a token'.length)
})

const reading = suite('a body')

reading('is refused with a field called __proto__, however that is written and wherever it is', () => {
  for (const text of ['{"__proto__":{}}', '{"\\u005f_proto__":1}', '[{"a":[{"__proto\\u005f\\u005f":null}]}]'])
    assert.throws(
      () => parse(Buffer.from(text)),
      (error: ApiError) => error.code === 'MALFORMED_JSON',
      text
    )
  assert.equal(parse(Buffer.from('{"a":"__proto__","b":"\\u005f"}')), { a: '__proto__', b: '_' })
})

reading('is refused where its bytes are not UTF-8: two names would become one', () => {
  for (const bytes of ['ff', 'c3', 'eda080'])
    assert.throws(
      () => parse(Buffer.from(`22${bytes}22`, 'hex')),
      (error: ApiError) => error.code === 'MALFORMED_JSON'
    )
  assert.is(parse(Buffer.from('\ufeff"ä"')), 'ä')
})

const describing = suite('the description')

describing('is made once for an address, not for each request', () => {
  assert.is(describe(operations, 'http://a.example'), describe(operations, 'http://a.example'))
})

const deploying = suite('the deployment files')
const DEPLOY = '.deploy'
const compose = readFileSync(`${DEPLOY}/compose.yaml`, 'utf8')

deploying('publish ports on the loopback address only', () => {
  const published = [...compose.matchAll(/^\s+- "([^"]*:\d+)"$/gm)].map(([, port]) => port as string)
  assert.ok(published.length > 0)
  for (const port of published) assert.match(port, /^127\.0\.0\.1:/)
})

deploying('give Redis a password, and take no default for it', () => {
  assert.match(compose, /--requirepass, "\$\{REDIS_PASSWORD:\?/)
  assert.match(compose, /redis:\/\/:\$\{REDIS_PASSWORD/)
})

deploying('have units whose exposure systemd rates at 3 or less', () => {
  const units = readdirSync(`${DEPLOY}/systemd`).filter(name => name.endsWith('.service'))
  assert.ok(units.length > 0)
  for (const unit of units) {
    const path = `${DEPLOY}/systemd/${unit}`
    const text = readFileSync(path, 'utf8')
    for (const setting of ['SystemCallFilter=@system-service', 'CapabilityBoundingSet=\n', 'NoNewPrivileges=yes'])
      assert.ok(text.includes(setting), `${unit}: ${setting}`)
    const { stdout, error } = spawnSync('systemd-analyze', ['security', '--offline=true', path], { encoding: 'utf8' })
    // Not everywhere is there a systemd; then the settings above have to do.
    if (error) continue
    const exposure = /exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]
    assert.ok(Number(exposure) <= 3, `${unit}: ${exposure}`)
  }
})

const guide = suite('the guide on security')
const text = readFileSync('api/description/guides/security.md', 'utf8')

guide('names tests and classes of the fuzzer that there are', () => {
  const files = [...text.matchAll(/`([\w./-]+\.ts)`/g)].map(([, file]) => file as string)
  assert.ok(files.length > 20)
  // Named without the folder of their concern.
  const there = readdirSync('test', { recursive: true }).map(path => `/${path}`)
  for (const file of files)
    assert.ok(
      there.some(path => path.endsWith(`/${file}`)),
      file
    )
  // A row without a test names the reason.
  for (const row of text.split('\n').filter(line => /^\| (API|V)\d/.test(line)))
    assert.ok(/`[\w./-]+\.ts`|does not apply/.test(row), row)
  const classes = [...text.matchAll(/fuzz class(?:es)? ((?:`[\w-]+`(?:, | and )?)+)/g)].flatMap(([, names]) =>
    [...(names as string).matchAll(/`([\w-]+)`/g)].map(([, name]) => name as string)
  )
  assert.ok(classes.length > 3)
  for (const name of classes) assert.ok(Object.hasOwn({ ...kinds, ...hostile }, name), name)
})

guide('has a row for each item of the API Top 10 and each chapter of ASVS 5.0', () => {
  const rows = text.split('\n').filter(line => line.startsWith('| '))
  for (let item = 1; item <= 10; item++)
    assert.ok(
      rows.some(row => row.startsWith(`| API${item} `)),
      `API${item}`
    )
  for (let chapter = 1; chapter <= 17; chapter++)
    assert.ok(
      rows.some(row => row.startsWith(`| V${chapter} `)),
      `V${chapter}`
    )
})

for (const tests of [sealing, reading, describing, deploying, guide]) tests.run()

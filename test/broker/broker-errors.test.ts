// The mapping of the broker's error codes, compared row by row with the published table where that is available.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { errorMappings } from '../../worker/broker/dialects/error-codes.ts'
import { mappingOf, readRefusal, refused } from '../../worker/broker/dialects/errors.ts'
import { sharedFolder } from '../support/shared.ts'

const table = suite('the table of broker codes')
const folder = sharedFolder('broker-api')

interface ErrorRow {
  codes: string[]
  map: string
  ran: 'no' | 'unknown'
}

/** The rows of section 9: codes, what they map to, whether the call may have run. */
async function readDossier(): Promise<ErrorRow[]> {
  const text = await readFile(join(folder!, 'README.md'), 'utf8')
  const section = text.slice(text.indexOf('\n## 9.'), text.indexOf('\n## 10.'))
  const rows: ErrorRow[] = []
  for (const line of section.split('\n').filter(each => each.startsWith('| '))) {
    const [first = '', , map = '', ran = ''] = line.slice(2, -2).split(' | ')
    const names = first.replaceAll(/ \([^)]*\)/g, '').split(/[,;] ?/)
    // The heading, and the row about sockets, name no code.
    if (first === 'code' || !names.every(name => /^[A-Z]\w+(\/\w+)?\*?$/.test(name))) continue
    rows.push({ codes: names.flatMap(spell), map, ran: ran.includes('?') ? 'unknown' : 'no' })
  }
  return rows
}

/** "LimitOrderAmountTooHigh/Low" is two codes. */
function spell(name: string): string[] {
  const [whole, other] = name.split('/')
  return other === undefined ? [whole!] : [whole!, whole!.replace(/[A-Z][a-z]+$/, other)]
}

const ours = {
  BD: 'BROKER_DISCONNECTED',
  BU: 'BROKER_UPSTREAM',
  MC: 'MARKET_CLOSED',
  IB: 'INSUFFICIENT_BALANCE',
  IC: 'INVALID_CONTRACT'
}

if (folder === null)
  console.log('SKIPPED: ../shared/broker-api is not here, the table of codes is not compared with it')
else {
  const rows = await readDossier()

  table('has every published code, with our code and whether it may have run', () => {
    assert.ok(rows.length > 30, `only ${rows.length} rows could be read`)
    for (const { codes, map, ran } of rows) {
      for (const code of codes) {
        assert.ok(Object.hasOwn(errorMappings, code), `${code} is missing`)
        const meaning = errorMappings[code]!
        assert.is(meaning.ran, ran, `${code}: ran`)
        if (code.endsWith('TooFrequent') || map.startsWith('RL')) {
          // Their limit is no limit of the caller's: reported as upstream trouble.
          assert.is(meaning.code, 'BROKER_UPSTREAM', code)
          assert.ok(meaning.rateLimit, code)
        } else if (map.startsWith('by text') || map.startsWith('as above')) assert.ok(meaning.byText, code)
        else if (map.startsWith('re-quote') || map.startsWith('none')) assert.is(meaning.code, 'BROKER_UPSTREAM', code)
        else assert.is(meaning.code, ours[map.slice(0, 2) as keyof typeof ours], `${code}: ${map}`)
      }
    }
  })

  table('has no code that is not published', () => {
    const published = new Set(rows.flatMap(row => row.codes))
    for (const code of Object.keys(errorMappings)) assert.ok(published.has(code), code)
  })
}

/** Section 4 of the newer dialect's dossier: our code → the broker's codes and subcodes. */
async function readNewer(): Promise<[string, string[]][]> {
  const text = await readFile(join(folder!, 'next/README.md'), 'utf8')
  const section = text.slice(text.indexOf('\n## 4.'), text.indexOf('\n## 5.'))
  const lines = section.split('\n').filter(line => /^- [A-Z]+_[A-Z_]+[:, ]/.test(line))
  return lines.map(line => {
    const [, group = '', list = ''] = /^- ([A-Z_]+)[^:]*: (.*)$/.exec(line) ?? []
    const names = list
      .replaceAll(/ ?\([^)]*\)/g, '')
      .replace(/\. .*$/, '')
      .split(/, |\./)
    return [group, names.map(name => name.split('/')[0]!).filter(name => /^[A-Z]\w+\*?\w*$/.test(name))]
  })
}

if (folder !== null) {
  const newer = await readNewer()

  table('has every code the newer dialect names, with our code', () => {
    assert.ok(newer.flatMap(([, codes]) => codes).length > 90)
    for (const [group, codes] of newer) {
      for (const code of codes.map(each => each.replace('*', ''))) {
        if (group === 'RATE_LIMITED') assert.ok(mappingOf(code).rateLimit, code)
        else if (code !== 'ContractUpdateTooFrequent') assert.is(mappingOf(code).code, group, code)
      }
    }
  })
}

table('takes an unknown code for upstream trouble that did not run', () => {
  const error = refused(readRefusal({ code: 'NeverHeardOf', message: 'x' }), true)
  assert.is(error.code, 'BROKER_UPSTREAM')
  assert.is(error.ran, 'no')
  assert.is(error.brokerCode, 'NeverHeardOf')
})

table('knows families of codes by their beginning', () => {
  assert.is(mappingOf('InvalidBarrierFormat').code, 'INVALID_CONTRACT')
  assert.is(mappingOf('MissingMarketDataSpot').code, 'BROKER_UPSTREAM')
})

table('calls a purchase in doubt after a fault behind the broker, and a read never', () => {
  for (const code of ['Timeout', 'CallError', 'WrongResponse', 'InternalServerError', 'ResponseTooLarge']) {
    assert.is(refused(readRefusal({ code, message: 'x' }), true).ran, 'unknown', code)
    assert.is(refused(readRefusal({ code, message: 'x' }), false).ran, 'no', code)
  }
})

table('calls a purchase in doubt when the refusal itself cannot be read', () => {
  for (const error of [null, 'no', { message: 'x' }, { code: 7 }, { code: 'two words' }]) {
    assert.is(refused(readRefusal(error), true).ran, 'unknown')
  }
})

table('distinguishes a closed market from missing data where only the text does', () => {
  const codeOf = (message: string) => refused(readRefusal({ code: 'ContractBuyValidationError', message }), true).code
  assert.is(codeOf('This market is presently closed.'), 'MARKET_CLOSED')
  assert.is(codeOf('The market must be open during the contract. Try out the synthetic ones.'), 'MARKET_CLOSED')
  assert.is(codeOf('Trading is suspended due to missing market data.'), 'BROKER_UPSTREAM')
  assert.is(codeOf('Minimum stake of 0.35 and maximum payout of 5000.00.'), 'INVALID_CONTRACT')
})

table('names the field that is wrong, in either form of the details', () => {
  const fieldOf = (details: unknown) =>
    refused(readRefusal({ code: 'InputValidationFailed', message: 'x', details }), true).field
  assert.is(fieldOf({ field: 'amount' }), 'stake')
  assert.is(fieldOf({ symbol: 'String does not match.' }), 'asset')
  assert.is(fieldOf({ 'parameters.duration': 'Too large.', parameters: 'Wrong.' }), 'duration')
  for (const details of [
    undefined,
    null,
    'symbol',
    [],
    {},
    { field: 7 },
    { price: 'x' },
    { symbol: 'x', barrier: 'x' }
  ])
    assert.is(fieldOf(details), undefined, JSON.stringify(details))
})

table('reports that the token is refused, and only then', () => {
  const rejected = (code: string) => refused(readRefusal({ code, message: 'x' }), false).rejected
  for (const code of ['InvalidToken', 'AuthorizationRequired', 'DisabledClient', 'PermissionDenied']) {
    assert.ok(rejected(code), code)
  }
  for (const code of ['InvalidAppID', 'RateLimit', 'InternalServerError', 'MarketIsClosed'])
    assert.not(rejected(code), code)
})

table('reads the opening time where the broker states it', () => {
  const startedAt = Date.now()
  const opens = new Date(startedAt + 3_600_000).toISOString().slice(0, 19).replace('T', ' ')
  const error = refused(readRefusal({ code: 'MarketIsClosed', message: 'Closed.', code_args: [opens] }), true)
  const leastSeconds = 3_598 - (Date.now() - startedAt) / 1000
  assert.ok(error.secondsUntilOpen! >= leastSeconds && error.secondsUntilOpen! <= 3_600, String(error.secondsUntilOpen))
  const absurd = refused(readRefusal({ code: 'MarketIsClosed', message: 'open at 2001-01-01 00:00:00' }), true)
  assert.is(absurd.secondsUntilOpen, null)
})

table("keeps the broker's words on one line and short", () => {
  const { message } = readRefusal({ code: 'RateLimit', message: `a\nb\u0000c${'x'.repeat(1_000)}` })
  assert.ok(message.startsWith('a b c'))
  assert.is(message.length, 300)
})

table.run()

// Rules for values as sentences: a caller who reads a refusal should not have to read a regular expression.
import type { ErrorObject } from 'ajv'

const LINE = 'must be one line of text without control characters'
const TEXT = 'must be text without the character U+0000'
const VISIBLE = 'must be letters, digits and signs of ASCII, without spaces'
const AMOUNT = 'must be an amount with two decimals at most'

/** Every pattern of our schemas, and its rule as a sentence. */
export const patternWords: Readonly<Record<string, string>> = {
  '^[^\\u0000-\\u001f\\u007f]+$': LINE,
  '^[^\\u0000-\\u001f\\u007f]*$': LINE,
  '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]+$': `${LINE}, and not only spaces`,
  '^[^\\u0000]+$': TEXT,
  '^[^\\u0000]*$': TEXT,
  '^[\\u0021-\\u007e]+$': VISIBLE,
  '^[\\u0021-\\u007e]*$': VISIBLE,
  '^[\\u0021-\\u007e]([\\u0020-\\u007e]*[\\u0021-\\u007e])?$':
    'must be letters, digits, signs and spaces of ASCII, without spaces at its ends',
  '^[A-Za-z0-9]+$': 'must be letters and digits',
  '^[A-Za-z0-9_]+$': 'must be letters, digits and underscores, like R_100',
  '^[A-Za-z0-9_-]+$': 'must be letters, digits, hyphens and underscores',
  '^\\w[\\w-]{0,63}$': 'must be an account id: at most 64 letters, digits, hyphens and underscores',
  '^[A-Za-z][A-Za-z0-9+-]*(/[A-Za-z0-9_+-]+){0,2}$': 'must be an IANA name of a time zone, such as Europe/Berlin',
  '^[0-9]$': "must be one digit from '0' to '9'",
  '^[0-9]{1,20}$': 'must be a contract id: 1 to 20 digits',
  '^\\d{1,15}$': 'must be nextCursor of the page before',
  '^aud_[0-9a-z]{26}$': 'must be nextCursor of the page before',
  '^ptn_[0-9a-z]{26}$': 'must be a partnerId: ptn_ and 26 characters',
  '^[a-z0-9][a-z0-9-]*[a-z0-9]$':
    'must be lower-case letters, digits and hyphens, and begin and end with a letter or digit',
  '^#[0-9a-fA-F]{6}$': 'must be # and six hexadecimal digits, like #0a84ff',
  '^[Hh][Tt][Tt][Pp][Ss]?://[^/]': 'must be an address that begins with https:// or http://',
  '^https?://[^\\s/]': 'must be an address that begins with https:// or http://',
  '^https?://[^/]+': 'must be an address that begins with https:// or http://',
  '^https?://': 'must be an address that begins with https:// or http://',
  '^wss?://': 'must be an address that begins with wss:// or ws://',
  '^rediss?://': 'must be an address that begins with redis:// or rediss://',
  '^postgres(ql)?://': 'must be an address that begins with postgresql:// or postgres://',
  '^[A-Za-z0-9-]{1,64}$': 'must be the name of a header field: letters, digits and hyphens',
  '^\\.?[A-Za-z0-9.-]+$': 'must be a domain, like example.com',
  '^[A-Za-z0-9_.-]{1,32}:[A-Za-z0-9+/]{43}=(,[A-Za-z0-9_.-]{1,32}:[A-Za-z0-9+/]{43}=)*$':
    'must be keys as id:base64 between commas, each of 32 bytes',
  '^(\\d{10,13}|\\d{4}-\\d{2}-\\d{2}([T ]\\d{2}:\\d{2}(:\\d{2}([.,]\\d+)?)?( ?(Z|UTC|[+-]\\d{2}(:?\\d{2})?))?)?)$':
    'must be a time: ISO 8601, like 2026-11-21T08:00:00Z, or seconds or milliseconds since 1970',
  '^\\d{4}-\\d\\d-\\d\\d(T\\d\\d:\\d\\d(:\\d\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d))?$':
    'must be a date or a time with its zone, like 2026-11-21 or 2026-11-21T08:00:00Z',
  '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d)$':
    'must be a time with its zone, like 2026-11-21T08:00:10Z',
  '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])(T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d))?$':
    'must be a date or a time with its zone, like 2026-11-21 or 2026-11-21T08:00:00Z',
  '^[A-Z][A-Z_]{2,63}$': 'must be the name of an error, like MARKET_CLOSED',
  '^(default|[1-9][0-9]{0,6})$': "must be a number of calls a minute from 1 to 9999999, or 'default'",
  '^service_(live|test)_[0-9a-f]{16}_[0-9a-f]{48}$': 'must be an API key',
  '^[A-Za-z0-9._-]+$': 'must be letters, digits, points, hyphens and underscores',
  '^[A-Za-z0-9._-]{1,64}$': 'must be 1 to 64 letters, digits, points, hyphens and underscores',
  '^wss?://[^/]+': 'must be an address that begins with wss:// or ws://',
  '^[^\\p{C}]+$': LINE,
  '^[a-z_][a-z0-9_]{0,62}$': 'must be the name of a role: lower-case letters, digits and underscores',
  '^(?!0+(\\.0+)?$)\\d{1,10}(\\.\\d{1,2})?$': `${AMOUNT}, above 0 and below 10000000000`,
  '^\\d{1,10}(\\.\\d{1,2})?$': `${AMOUNT}, 0 or more and below 10000000000`,
  '^\\d{1,9}(\\.\\d{1,8})?$': 'must be an amount with eight decimals at most, 0 or more'
}

const typeWords: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null'
}

const formatWords: Readonly<Record<string, string>> = {
  email: 'must be an e-mail address',
  'date-time': 'must be a date and time in ISO 8601 with its zone, like 2026-11-21T08:00:00Z',
  date: 'must be a date, like 2026-11-21',
  uri: 'must be an address that begins with its scheme, like https://example.com/'
}

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

// Names between commas, of a list in the pattern itself.
const LISTED = /^\^\(([\w\\.|]+)\)\(,\(\1\)\)\*\$$/

/** The demand of a pattern in words; undefined where none are written. */
export function wordsOfPattern(pattern: string): string | undefined {
  const listed = LISTED.exec(pattern)?.[1]
  if (listed) return `must be names between commas, of: ${listed.replaceAll('\\', '').split('|').join(', ')}`
  return Object.hasOwn(patternWords, pattern) ? patternWords[pattern] : undefined
}

/** The violated rule as a sentence; undefined where Ajv's own message suffices. */
export function wordsOf({ keyword, params }: Pick<ErrorObject, 'keyword' | 'params'>): string | undefined {
  switch (keyword) {
    case 'type':
      return `must be ${[params.type]
        .flat()
        .map((name: string) => typeWords[name] ?? name)
        .join(' or ')}`
    case 'minimum':
      return `must be at least ${params.limit}`
    case 'maximum':
      return `must be at most ${params.limit}`
    case 'exclusiveMinimum':
      return `must be above ${params.limit}`
    case 'exclusiveMaximum':
      return `must be below ${params.limit}`
    case 'minLength':
      return params.limit === 1 ? 'must not be empty' : `must have at least ${counted(params.limit, 'character')}`
    case 'maxLength':
      return `must have at most ${counted(params.limit, 'character')}`
    case 'minItems':
      return params.limit === 1 ? 'must not be empty' : `must have at least ${params.limit} entries`
    case 'maxItems':
      return `must have at most ${params.limit} entries`
    case 'uniqueItems':
      return 'must not have the same entry twice'
    case 'minProperties':
      return `must have at least ${counted(params.limit, 'field')}`
    case 'maxProperties':
      return `must have at most ${params.limit} fields`
    case 'enum':
      return `must be one of ${params.allowedValues.join(', ')}`
    case 'const':
      return `must be ${JSON.stringify(params.allowedValue)}`
    case 'format':
      return formatWords[params.format]
    case 'pattern':
      return wordsOfPattern(params.pattern)
    default:
      return undefined
  }
}

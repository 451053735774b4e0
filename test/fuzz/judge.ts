// What is wrong with a response: the checks that every response must pass, and what its request expected of it.

import type { Described, DescribedAnswer } from './description.ts'
import type { Received } from './raw-request.ts'
import type { FuzzCase, FuzzScene } from './requests.ts'

export interface Problem {
  check: string
  words: string
}

/** What responds before there is an operation: unknown paths, other methods, and what is hardly HTTP. */
const STRAY: Record<number, string[]> = {
  400: ['MALFORMED_REQUEST', 'VALIDATION_FAILED'],
  404: ['NOT_FOUND'],
  405: ['METHOD_NOT_ALLOWED'],
  431: ['HEADERS_TOO_LARGE']
}
// Words of ours that are nobody's business: stacks, files, statements, addresses of databases.
const INSIDES =
  /\n\s+at |\.ts:\d+|node_modules|postgres(ql)?:\/\/|\b(select|insert into|update|delete from)\b.*\b(from|values|set|where)\b|SQLSTATE/i

// No response may take longer; but after many failures an attempt at a password waits for 8 s itself, behind three others that do.
const ANSWER_MS = 60_000
const SLOWED_MS = 4 * 8000
const slowed = ['logInTrader', 'signUpTrader', 'changePassword']

/** How long a response of the operation may take. */
export const answerMsOf = ({ name }: Pick<Described, 'name'>, { stretch }: Pick<FuzzScene, 'stretch'>): number =>
  stretch * ANSWER_MS + (slowed.includes(name) ? SLOWED_MS : 0)

// Tokens that the fuzzer made up were refused so often that its unproven accounts have to wait: what the service promises.
const isOwnDoing = (status: number, text: string) =>
  status === 502 && text.includes('The broker refused tokens of this account, or of too many accounts, again and again')

/** The problems of a response, empty when it is as described and expected. */
export function judge(ask: FuzzCase, received: Received, scene: FuzzScene): Problem[] {
  const { expected, raw } = ask
  const operation = answering(ask, scene)
  const { status, headers, text } = received
  const found: Problem[] = []
  const say = (check: string, words: string) => found.push({ check, words })
  if (status >= 500 && !expected?.only?.includes(status) && !isOwnDoing(status, text))
    say('not_a_server_error', `${status} ${text.slice(0, 300)}`)
  if (received.ms > answerMsOf(operation, scene)) say('max_response_time', `${Math.round(received.ms)} ms`)
  if (expected?.withinMs !== undefined && received.ms > expected.withinMs * scene.stretch)
    say(expected.check, `answered after ${Math.round(received.ms)} ms`)
  if (expected?.only && !expected.only.includes(status))
    say(expected.check, `${status} instead of ${expected.only.join(' or ')}: ${text.slice(0, 300)}`)
  if (expected?.never?.includes(status)) say(expected.check, `${status} to a good request: ${text.slice(0, 300)}`)

  const id = headers['x-request-id']
  if (typeof id !== 'string' || !/^[A-Za-z0-9._-]{8,64}$/.test(id))
    say('response_headers_conformance', `X-Request-Id is ${JSON.stringify(id)}`)
  for (const name of ['server', 'x-powered-by'])
    if (headers[name] !== undefined) say('response_headers_conformance', `${name}: ${headers[name]}`)
  if (status === 405) checkAllow(ask, headers.allow, scene, say)
  if (raw.method === 'HEAD') return found

  if (!/^application\/json(; charset=utf-8)?$/.test(headers['content-type'] ?? ''))
    say('content_type_conformance', `Content-Type is ${headers['content-type']}`)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    say('response_schema_conformance', `no JSON: ${text.slice(0, 200)}`)
    return found
  }
  const described = operation.answers[status]
  const isStray = status === 405 || (ask.stray && STRAY[status] && !described?.codes.includes(codeOf(body)))
  if (isStray) checkStray(status, body, scene, say)
  else if (!described) say('status_code_conformance', `${status} is not described: ${text.slice(0, 300)}`)
  else {
    checkHeaders(described, received, say)
    const broken = scene.description.problems(described.schema, body)
    if (broken.length > 0) say('response_schema_conformance', `${broken.slice(0, 5).join('; ')}: ${text.slice(0, 500)}`)
  }
  if (status >= 300 && (body as { requestId?: unknown })?.requestId !== id)
    say('response_schema_conformance', 'requestId is not that of the header')
  // The log of requests repeats whom the partner itself named.
  const hidden = operation.name === 'listRequests' ? [] : (ask.hidden ?? [scene.canary])
  if (hidden.some(mark => text.includes(mark))) say('leak', `shows what is another partner's: ${text.slice(0, 500)}`)
  if (ask.secret && status < 300 && text.includes(ask.secret)) say('mass_assignment', text.slice(0, 500))
  // The description and what people write may well contain such words.
  if (status >= 400 && INSIDES.test(String((body as { message?: unknown })?.message)))
    say('leak', `shows our insides: ${text.slice(0, 500)}`)
  return found
}

/** The operation that responds: a path that was twisted may have become that of another one. */
function answering({ operation, stray, raw }: FuzzCase, { description }: FuzzScene): Described {
  if (!stray) return operation
  const [path = ''] = raw.path.split('?')
  const named = description.operations.filter(({ method }) => method === raw.method)
  const isOf = (template: string) => new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path)
  return named.find(other => other.path === path) ?? named.find(other => isOf(other.path)) ?? operation
}

const codeOf = (body: unknown) => String((body as { error?: unknown })?.error)

type Say = (check: string, words: string) => void

function checkHeaders({ headers: fields }: DescribedAnswer, { headers }: Received, say: Say): void {
  for (const [name, { required, pattern }] of Object.entries(fields)) {
    const value = headers[name.toLowerCase()]
    if (value === undefined) {
      if (required) say('response_headers_conformance', `${name} is missing`)
    } else if (pattern && !pattern.test(String(value)))
      say('response_headers_conformance', `${name}: ${value} does not match ${pattern}`)
  }
}

function checkStray(status: number, body: unknown, { description }: FuzzScene, say: Say): void {
  const broken = description.problems({ $ref: '#/components/schemas/Error' }, body)
  if (broken.length > 0) say('response_schema_conformance', broken.join('; '))
  if (!STRAY[status]?.includes(codeOf(body))) say('status_code_conformance', `${status} ${codeOf(body)}`)
}

function checkAllow({ operation, stray, kind }: FuzzCase, allow: unknown, { description }: FuzzScene, say: Say): void {
  const allowed = String(allow ?? '').split(', ')
  const taken = description.methods.get(operation.path) ?? []
  const wanted = [...taken, ...(taken.includes('GET') ? ['HEAD'] : [])]
  // A twisted path may have become that of another operation.
  const isSame = kind !== 'methods' && stray ? allow !== undefined : allowed.sort().join() === wanted.sort().join()
  if (!isSame) say('unsupported_method', `Allow is ${JSON.stringify(allow)}, not ${wanted.join(', ')}`)
}

// A campaign: requests of every class to every operation, in an order that a seed decides, and a report of what was
// sent and what was wrong. The requests are the same for a seed as far as they do not depend on responses.
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { hostile } from './hostile.ts'
import { answerMsOf, judge } from './judge.ts'
import { kinds } from './kinds.ts'
import { BrokenPromise, lifecycles, stepsOver } from './lifecycles.ts'
import { type KeptConnections, openConnections, type RawRequest, type Received } from './raw-request.ts'
import { type Findings, type FuzzReport, openFindings } from './report.ts'
import { cursorOf, type FuzzCase, type FuzzScene, identifierIn, learn } from './requests.ts'

interface CampaignOptions {
  scene: FuzzScene
  seed: number
  requests: number
  /** Ends earlier after so long. */
  minutes?: number
  concurrency?: number
  /** While it returns true, nothing new is sent. */
  paused?: () => boolean
  /** Only these classes, and operations. */
  only?: { kinds?: string[]; operations?: string[] }
  log?: (line: string) => void
}

const BATCH = 10
const PAUSE_MS = 1000
const LIFECYCLE = 'lifecycle'
// Of a request whose broker response came too late: each waits for some seconds, all of them for longer than an order lives.
const REPEATS = 5

/** Runs until so many requests were sent, or the time is over. */
export async function runCampaign(options: CampaignOptions): Promise<FuzzReport> {
  const {
    scene,
    seed,
    requests,
    minutes = Number.POSITIVE_INFINITY,
    concurrency = 16,
    only = {},
    log,
    paused
  } = options
  const line = openConnections(scene.address, concurrency)
  const findings = openFindings(scene.address, seed, log)
  const { report } = findings
  const startedAt = performance.now()
  const seconds = () => (performance.now() - startedAt) / 1000
  const plan = schedule(scene, seed, only)
  const lives = new Map<string, Promise<void>>()
  let reported = 0
  const lane = async () => {
    while (report.requests < requests && seconds() < minutes * 60) {
      while (paused?.()) await sleep(PAUSE_MS)
      const { value } = plan.next()
      if (value === undefined) return
      if (typeof value === 'string') {
        // Two lives at once of one bot's purchase would share the purchase, and give it up once each.
        const life = (lives.get(value) ?? Promise.resolve()).then(() => live(value, { scene, line, findings }))
        lives.set(value, life)
        await life
      } else for (const asked of value) if (report.requests < requests) await ask(asked, { scene, line, findings })
      if (log && report.requests - reported >= 10_000) {
        reported = report.requests
        log(
          `${reported} requests, ${Math.round(reported / seconds())}/s, ${report.violations.length} kinds of violations`
        )
      }
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  line.close()
  report.seconds = seconds()
  return report
}

interface OpenCampaign {
  scene: FuzzScene
  line: KeptConnections
  findings: Findings
}

/** Sends a request and holds the response to its description. */
async function ask(asked: FuzzCase, { scene, line, findings }: OpenCampaign): Promise<Received> {
  const { operation, kind, raw } = asked
  findings.sent(asked)
  try {
    let received = await line.send(raw, answerMsOf(operation, scene))
    // On a busy machine the broker's response may come too late. The service reports that, and a repeat shows the outcome.
    for (let repeats = 0; repeats < REPEATS && (isLate(received) || isStarved(received, scene)); repeats++) {
      const { ms } = received
      received = await line.send(raw, answerMsOf(operation, scene))
      received.ms += ms
    }
    findings.answered(received.status)
    for (const problem of judge(asked, received, scene)) findings.wrong(operation.name, kind, raw, problem)
    if (received.status === 200 && kind === 'valid') remember(scene, asked, received.text)
    return received
  } catch (error) {
    const words = `no answer: ${(error as Error).message}`
    findings.wrong(operation.name, kind, raw, { check: 'not_a_server_error', words })
    return { status: 0, headers: {}, text: '{}', ms: 0 }
  }
}

/** Whether the broker, or its response, came too late for this request, which is to be sent again. */
const isLate = ({ status, text }: Received): boolean =>
  status === 502 &&
  /"status":"PENDING"|no answer from the broker in time|broker did not (answer|accept a connection) in time/.test(text)

/** Whether the service was too slow on a busy machine to read a request that was sent whole. */
const isStarved = ({ status }: Received, { stretch }: FuzzScene): boolean => stretch > 1 && status === 408

/** Lives one thing's life. */
async function live(name: string, services: OpenCampaign): Promise<void> {
  let last: RawRequest | null = null
  const step = stepsOver(services.scene, (operation, raw, expected) => {
    last = raw
    return ask({ operation, kind: LIFECYCLE, raw, expected }, services)
  })
  await lifecycles[name]?.(step, services.scene).catch((error: Error) => {
    if (!(error instanceof BrokenPromise)) throw error
    services.findings.wrong(`lifecycle of ${name}`, LIFECYCLE, last, { check: error.check, words: error.message })
  })
}

/** Batches of requests of every class and operation, and between them lifecycles, without end. */
function* schedule(
  scene: FuzzScene,
  seed: number,
  { kinds: wanted, operations: named }: { kinds?: string[]; operations?: string[] }
): Generator<FuzzCase[] | string, undefined> {
  const classes = Object.entries({ ...kinds, ...hostile }).filter(([name]) => !wanted || wanted.includes(name))
  const operations = scene.description.operations.filter(({ name }) => !named || named.includes(name))
  const lives = !wanted || wanted.includes(LIFECYCLE) ? Object.keys(lifecycles) : []
  const pairs = operations.flatMap(operation =>
    // A class may mean nothing to an operation.
    classes.flatMap(([, kind]) => (kind(operation, scene) ? [{ operation, kind }] : []))
  )
  if (pairs.length === 0 && lives.length === 0) throw new Error('No operation takes requests of these classes.')
  for (let round = 0; ; round++) {
    const order =
      fc.sample(fc.shuffledSubarray([...pairs.keys()], { minLength: pairs.length }), {
        seed: seed + round,
        numRuns: 1
      })[0] ?? []
    for (const [place, index] of order.entries()) {
      const { operation, kind } = pairs[index] as (typeof pairs)[number]
      const asks = kind(operation, scene)
      // The first round is short, so that a short campaign sees every pair.
      if (asks) yield fc.sample(asks, { seed: seed + round * 100_003 + index, numRuns: round === 0 ? 1 : BATCH })
      if (lives.length > 0 && place % 40 === 0) yield lives[(round * 7 + place / 40) % lives.length] as string
    }
    for (const name of order.length === 0 || round === 0 ? lives : []) yield name
  }
}

/** Identifiers of what was made, so that later requests get past the first look-up. */
function remember(scene: FuzzScene, { operation, raw }: FuzzCase, text: string): void {
  const body = JSON.parse(text) as Record<string, unknown>
  if (operation.query.cursor && typeof body.nextCursor === 'string')
    learn(scene, cursorOf('cursor', raw), body.nextCursor)
  if (operation.query.after && typeof body.cursor === 'string') learn(scene, cursorOf('after', raw), body.cursor)
  if (operation.method !== 'POST') return
  const identifier = identifierIn(operation.path)
  const names: Record<string, string> = {
    multiplierOrderId: 'orderId',
    communityBotId: 'botId',
    ownBotId: 'botId',
    slug: 'deploymentId'
  }
  const value = body[names[identifier] ?? identifier]
  if (typeof value === 'string' && identifier !== 'slug') learn(scene, identifier, value)
  if (operation.name === 'createCreatorBot') learn(scene, 'botId', value)
}

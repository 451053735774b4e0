// operator listen: forwards a partner's events, from now on, to a developer's machine, signed like webhooks.
import type { Command } from 'commander'
import { showEvents } from '../../db/events/faults.ts'
import { readEvents, readLogState } from '../../db/events/read.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { EVENTS, openBus } from '../../db/platform/bus.ts'
import { openLog } from '../../db/platform/log.ts'
import { openStore } from '../../db/platform/store.ts'
import { newWebhookSecret, signedHeaders, signingKey } from '../../db/webhooks/sign.ts'
import { Forwarding } from '../../schemas/commands/webhooks.ts'
import { type Context, withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { cleaned } from '../terminal/output.ts'
import { listed } from './webhooks.ts'

const PAGE = 50
// A hint of new events may be lost.
const REREAD_MS = 1000
const TIMEOUT_MS = 15_000

export function addListen(program: Command): void {
  program
    .command('listen')
    .description("Forward a partner's events to a URL as they happen, signed like webhooks, until interrupted")
    .requiredOption('--partner <partnerId>', 'whose events')
    .requiredOption('--forward-to <url>', 'where to, such as http://localhost:3000/hooks')
    .option('--types <list>', 'only these types, separated by commas')
    .addHelpText('after', examples('listen --partner ptn_01jd… --forward-to http://localhost:3000/hooks'))
    .action(withoutStore(forward, { input: Forwarding }))
}

/** Each event is sent once, in the order of the log; what the URL returns is shown and changes nothing. */
async function forward(
  context: Context,
  { partner: partnerId, forwardTo, types: list }: Forwarding
): Promise<undefined> {
  const types = listed(list) ?? undefined
  const secret = newWebhookSecret()
  const keys = [signingKey(secret)]
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopping.abort())
  const store = await openStore(context.config, { name: 'cli' })
  const quiet = openLog({ level: 'silent', name: 'cli' })
  const bus = await openBus({ url: store.url, redisUrl: context.config.redisUrl, log: quiet })
  let wake = () => {}
  const say = (shown: Record<string, unknown>, text: string) =>
    process.stdout.write(`${context.json ? JSON.stringify(shown) : cleaned(text)}\n`)
  try {
    const { db } = store
    await getPartner(db, partnerId)
    await bus.listen(EVENTS, ({ id }) => id === partnerId && wake())
    let point = (await readLogState(db, partnerId)).latest
    say({ partnerId, forwardTo, secret }, `Forwarding to ${forwardTo}. The secret of this session: ${secret}`)
    while (!stopping.signal.aborted) {
      const page = await readEvents(db, { partnerId, point, limit: PAGE, types })
      for (const event of showEvents(page.events, context.config, { db, log: quiet })) {
        if (stopping.signal.aborted) break
        const outcome = await post(forwardTo, keys, event, stopping.signal)
        const shown = { at: event.createdAt, id: event.id, type: event.type, ...outcome }
        say(
          shown,
          `${event.createdAt} ${event.type} ${event.id} → ${outcome.httpStatus ?? outcome.error} in ${outcome.ms} ms`
        )
      }
      point = page.next
      if (page.caughtUp) await sleepUntil(REREAD_MS, stopping.signal, to => (wake = to))
    }
  } finally {
    await bus.close()
    await store.close()
  }
}

async function post(
  url: string,
  keys: Parameters<typeof signedHeaders>[0],
  event: { id: string },
  stopping: AbortSignal
): Promise<{ httpStatus: number | null; error: string | null; ms: number }> {
  const begun = performance.now()
  const passed = () => Math.round(performance.now() - begun)
  const body = JSON.stringify(event)
  const headers = {
    'content-type': 'application/json',
    ...signedHeaders(keys, { id: event.id, body, atMs: Date.now() })
  }
  try {
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(TIMEOUT_MS)])
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal })
    await response.body?.cancel()
    return { httpStatus: response.status, error: null, ms: passed() }
  } catch (error) {
    const { cause, message } = error as Error & { cause?: { code?: string } }
    return { httpStatus: null, error: cause?.code ?? message, ms: passed() }
  }
}

function sleepUntil(ms: number, signal: AbortSignal, onWake: (wake: () => void) => void): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    onWake(done)
  })
}

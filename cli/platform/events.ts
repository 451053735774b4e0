// operator events: the event log as partners read it, live or page by page, and its epoch.
import type { Command } from 'commander'
import { readCursor, writeCursor } from '../../db/events/cursor.ts'
import { type EventSettings, eventIdOf, presentEvent, readEventId } from '../../db/events/present.ts'
import { type EventRow, findEvent, listLatest, PointExpired, readEvents, readLogState } from '../../db/events/read.ts'
import { newEventEpoch } from '../../db/events/sequence.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { EVENTS, openBus } from '../../db/platform/bus.ts'
import { openLog } from '../../db/platform/log.ts'
import { openStore } from '../../db/platform/store.ts'
import { EventRef, EventsFilter, EventsTail } from '../../schemas/commands/events.ts'
import { Nothing } from '../../schemas/commands/operator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type EventRecord, eventTypeNames, isEventType } from '../../schemas/events.ts'
import { type Context, type Opened, withoutStore, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { cleaned, type Show, table } from '../terminal/output.ts'
import { UsageError } from '../terminal/refusals.ts'
import { tailUntilInterrupted } from '../terminal/tail.ts'

const PAGE = 200

export function addEvents(program: Command): void {
  const events = program.command('events').description('Events: list, show, tail, new-epoch')

  events
    .command('list')
    .description("List a partner's events, the oldest that are kept first")
    .requiredOption('--partner <partnerId>', 'whose events')
    .option('--types <list>', 'only these types, separated by commas')
    .option('--trader <traderExternalId>', 'only of this trader')
    .option('--after <cursor>', 'cursor of the page before; `now` for the newest cursor alone')
    .option('--limit <count>', 'how many at most', '50')
    .addHelpText(
      'after',
      examples('events list --partner ptn_01jd…', 'events list --partner ptn_01jd… --types order.failed --json')
    )
    .action(withStore(list, { input: EventsFilter, show: showPage }))

  events
    .command('show <eventId>')
    .description('Show an event and whose it is')
    .addHelpText('after', examples('events show evt_01jd…'))
    .action(
      withStore(
        async ({ db, config }, { eventId }: EventRef) => {
          const id = readEventId(eventId)
          const found = id && (await findEvent(db, { ...id, partnerId: null }))
          if (!found) throw new ApiError('NOT_FOUND', `There is no event ${eventId}, or it is not kept any more.`)
          return { partnerId: found.partnerId, ...shownOf(found, config) }
        },
        { input: EventRef }
      )
    )

  events
    .command('tail')
    .description('Show events as they happen, of all partners or of one, until interrupted')
    .option('--partner <partnerId>', 'of one partner')
    .option('--types <list>', 'only these types, separated by commas')
    .addHelpText(
      'after',
      examples('events tail', 'events tail --partner ptn_01jd… --types order.opened,order.closed --json')
    )
    .action(withoutStore(tail, { input: EventsTail }))

  events
    .command('new-epoch')
    .description(
      'After a restore to an earlier point: expire every cursor, so that no reader skips or repeats events unnoticed'
    )
    .addHelpText('after', examples('events new-epoch'))
    .action(
      withStore(
        async ({ db, actor, confirm }) => {
          await confirm('Expire the cursors of all partners? Their readers get CURSOR_EXPIRED and start again.')
          const epoch = await db.transaction(async trx => {
            const next = await newEventEpoch(trx)
            await recordAudit(trx, { actor, action: 'events.new-epoch', target: String(next) })
            return next
          })
          return { epoch }
        },
        { input: Nothing, acts: true }
      )
    )
}

interface Page {
  data: EventRecord[]
  cursor: string
  caughtUp: boolean
}

async function list(
  { db, pepper, config }: Opened,
  { partner: partnerId, types, trader, after, limit }: EventsFilter
): Promise<Page> {
  await getPartner(db, partnerId)
  const cursor = (point: Parameters<typeof writeCursor>[2]) => writeCursor(pepper, partnerId, point)
  if (after === 'now') {
    const { latest } = await readLogState(db, partnerId)
    return { data: [], cursor: cursor(latest), caughtUp: true }
  }
  const point = after === undefined ? undefined : readCursor(pepper, partnerId, after)
  if (after !== undefined && !point) throw new UsageError(`--after is not a cursor of ${partnerId}`)
  try {
    const filter = {
      partnerId,
      point,
      limit,
      types: typesOf(types),
      traders: trader === undefined ? undefined : [trader]
    }
    const { events, next, caughtUp } = await readEvents(db, filter)
    return { data: events.map(event => shownOf(event, config)), cursor: cursor(next), caughtUp }
  } catch (error) {
    if (!(error instanceof PointExpired)) throw error
    const { oldest, latest } = error.state
    throw new ApiError(
      'CURSOR_EXPIRED',
      `This cursor is expired; kept is what comes after ${cursor(oldest)}, to ${cursor(latest)}.`
    )
  }
}

/** The event as partners see it; the operator also sees that there is one that cannot be shown to them, and why. */
function shownOf(event: EventRow, config: EventSettings): EventRecord {
  try {
    return presentEvent(event, config)
  } catch (error) {
    const { id, type, at, position, trader, subject } = event
    const data = { subject, cannotBeShown: (error as Error).message }
    return { id: eventIdOf(id), type, createdAt: at.toISOString(), position, traderExternalId: trader, data }
  }
}

const showPage: Show<Page> = ({ data, cursor, caughtUp }) =>
  [
    table(
      data.map(event => ({ ...event, about: aboutOf(event) })),
      ['position', 'createdAt', 'type', 'traderExternalId', 'about', 'id']
    ),
    `cursor: ${cursor}`,
    `caughtUp: ${caughtUp}`
  ].join('\n')

function typesOf(list: string | undefined) {
  const names = list?.split(',')
  const unknown = names?.filter(name => !isEventType(name)) ?? []
  if (unknown.length > 0)
    throw new UsageError(
      `--types has no type ${unknown.map(name => `'${name}'`).join(', ')}; there are ${eventTypeNames.join(', ')}`
    )
  return names
}

/** Follows the logs of all partners, or of one, from now on; ends when the process is interrupted. */
async function tail(context: Context, { partner, types: listed }: EventsTail): Promise<undefined> {
  const types = typesOf(listed)
  const store = await openStore(context.config, { name: 'cli' })
  const bus = await openBus({
    url: store.url,
    redisUrl: context.config.redisUrl,
    log: openLog({ level: 'silent', name: 'cli' })
  })
  try {
    const { db } = store
    if (partner) await getPartner(db, partner)
    await tailUntilInterrupted(async running => {
      await bus.listen(EVENTS, () => running.wake())
      const latest = async () =>
        (await listLatest(db)).filter(({ partnerId }) => partner === undefined || partnerId === partner)
      const shown = new Map((await latest()).map(({ partnerId, position }) => [partnerId, position]))
      context.note('Events as they happen; Ctrl-C ends.')
      return async () => {
        for (const { partnerId, position } of await latest()) {
          while (!running.stopped && (shown.get(partnerId) ?? 0) < position) {
            const state = await readLogState(db, partnerId)
            const point = { epoch: state.epoch, position: shown.get(partnerId) ?? 0, day: 0 }
            const page = await readEvents(db, { partnerId, point, limit: PAGE, types })
            shown.set(partnerId, page.next.position)
            for (const event of page.events)
              process.stdout.write(`${lineOf(partnerId, shownOf(event, context.config), context.json)}\n`)
          }
        }
      }
    })
  } finally {
    await bus.close()
    await store.close()
  }
}

function lineOf(partnerId: string, event: EventRecord, json: boolean): string {
  if (json) return JSON.stringify({ partnerId, ...event })
  const trader = event.traderExternalId === null ? '' : ` ${event.traderExternalId}`
  return cleaned(`${event.createdAt} ${partnerId} #${event.position} ${event.type}${trader} ${aboutOf(event)}`)
}

// In an event that cannot be shown the record is its subject.
const IDENTIFYING =
  'orderId accountId followId payoutId purchaseId subscriptionId keyId deploymentId webhookId subject'.split(' ')

/** What an event is about, in a few words: the record's id and its most useful fields. */
function aboutOf({ data }: EventRecord): string {
  const facts = data as Record<string, unknown>
  const id = IDENTIFYING.map(name => facts[name]).find(value => value !== undefined) ?? ''
  const { asset, stake, pnl, error } = facts as {
    asset?: string
    stake?: number
    pnl?: number | null
    error?: { error: string } | null
  }
  const order =
    asset === undefined
      ? ''
      : ` ${asset} stake ${stake}${pnl === null ? '' : ` pnl ${pnl}`}${error ? ` ${error.error}` : ''}`
  return `${id}${order}`
}

// operator webhooks: endpoints of partners, how delivery to them goes, disabling one, sending past events again.
import type { Command } from 'commander'
import { getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { insertReplay, listDeliveries, presentDelivery } from '../../db/webhooks/deliveries.ts'
import { changeWebhook, getWebhook, listWebhooks, presentWebhook } from '../../db/webhooks/endpoints.ts'
import { WebhookDisabling, WebhookRef, WebhookReplay, WebhooksFilter } from '../../schemas/commands/webhooks.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { eventTypeNames, isEventType } from '../../schemas/events.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { instantOf } from '../terminal/instants.ts'
import { lines, table } from '../terminal/output.ts'
import { UsageError } from '../terminal/refusals.ts'

const SHOWN = 20
const attemptFields = ['deliveryId', 'at', 'type', 'attempt', 'status', 'httpStatus', 'ms', 'error', 'nextAt']

export function addWebhooks(program: Command): void {
  const webhooks = program.command('webhooks').description('Webhook endpoints of partners: list, show, disable, replay')

  webhooks
    .command('list')
    .description('List endpoints, newest first')
    .option('--partner <partnerId>', 'of one partner')
    .option('--limit <count>', 'how many at most', '100')
    .addHelpText('after', examples('webhooks list', 'webhooks list --partner ptn_01jd… --json'))
    .action(
      withStore(
        async ({ db }, { partner, limit }: WebhooksFilter) => {
          if (partner) await getPartner(db, partner)
          const endpoints = await listWebhooks(db, partner ?? null, limit)
          return { data: endpoints.map(row => ({ partnerId: row.partner_id, ...presentWebhook(row) })) }
        },
        {
          input: WebhooksFilter,
          show: [
            'webhookId',
            'partnerId',
            'url',
            'status',
            'disabledReason',
            'failingSince',
            'lastError',
            'missedEvents'
          ]
        }
      )
    )

  webhooks
    .command('show <webhookId>')
    .description('Show an endpoint and its last attempts')
    .addHelpText('after', examples('webhooks show whk_01jd…'))
    .action(
      withStore(
        async ({ db }, { webhookId }: WebhookRef) => {
          const row = await getWebhook(db, webhookId, null)
          const found = { endpointId: webhookId, status: null, limit: SHOWN, after: null }
          const deliveries = (await listDeliveries(db, found)).deliveries.map(presentDelivery)
          return { partnerId: row.partner_id, ...presentWebhook(row), deliveries }
        },
        {
          input: WebhookRef,
          show: ({ deliveries, ...rest }) => `${lines(rest)}\n\n${table(deliveries, attemptFields)}`
        }
      )
    )

  webhooks
    .command('disable <webhookId>')
    .description('Send nothing more to an endpoint; its partner may enable it again')
    .requiredOption('--reason <text>', 'why; for the audit log')
    .addHelpText('after', examples('webhooks disable whk_01jd… --reason "floods a third party"'))
    .action(
      withStore(
        async ({ db, actor }, { webhookId, reason }: WebhookDisabling) => {
          const row = await db.transaction(async trx => {
            const of = { id: webhookId, partnerId: null, reason: 'OPERATOR' } as const
            const changed = await changeWebhook(trx, of, { enabled: false })
            await recordAudit(trx, { actor, action: 'webhooks.disable', target: webhookId, details: { reason } })
            return changed
          })
          return presentWebhook(row)
        },
        { input: WebhookDisabling, acts: true }
      )
    )

  webhooks
    .command('replay <webhookId>')
    .description('Send the events of a period again, under their ids')
    .requiredOption('--since <instant>', 'those from then on: a day, or ISO 8601 with its zone')
    .option('--until <instant>', 'those before; unless given all that the endpoint has passed')
    .option('--types <list>', 'only these types, separated by commas')
    .addHelpText('after', examples('webhooks replay whk_01jd… --since 2026-11-21T08:00:00Z --types order.closed'))
    .action(
      withStore(
        async ({ db, actor }, { webhookId, since, until, types }: WebhookReplay) => {
          const range = {
            point: null,
            since: instantOf('--since', since),
            until: until === undefined ? null : instantOf('--until', until),
            types: listed(types)
          }
          const events = await db.transaction(async trx => {
            const { partner_id: partnerId, enabled } = await getWebhook(trx, webhookId, null)
            if (!enabled) throw new ApiError('CONFLICT', `The endpoint ${webhookId} is DISABLED.`)
            const count = await insertReplay(trx, { endpointId: webhookId, partnerId }, range)
            const details = { since, until: until ?? null, types: types ?? null, events: count }
            await recordAudit(trx, { actor, action: 'webhooks.replay', target: webhookId, details })
            return count
          })
          return { events }
        },
        { input: WebhookReplay, acts: true }
      )
    )
}

/** The types of a list with commas; null for none given. */
export function listed(types: string | undefined): string[] | null {
  const names = types?.split(',')
  const unknown = names?.find(name => !isEventType(name))
  if (unknown !== undefined)
    throw new UsageError(`--types has no type '${unknown}'; there are ${eventTypeNames.join(', ')}`)
  return names ?? null
}

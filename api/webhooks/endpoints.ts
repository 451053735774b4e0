// Webhook endpoints over HTTP: a partner registers, changes and deletes its own, and rotates their secrets.
import { WORK } from '../../db/platform/bus.ts'
import {
  changeWebhook as change,
  getWebhook as get,
  insertWebhook,
  listWebhooks as list,
  presentWebhook,
  deleteWebhook as remove,
  rotateSecret
} from '../../db/webhooks/endpoints.ts'
import { WEBHOOKS } from '../../db/webhooks/topics.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { Webhook } from '../../schemas/webhook-endpoint.ts'
import { urlFault } from '../../schemas/webhook-url.ts'
import {
  DeletedWebhook,
  IssuedWebhook,
  NewWebhook,
  RotatedSecret,
  WebhookChange,
  WebhookList,
  WebhookPath
} from '../../schemas/webhooks.ts'
import type { ApiServices, Operation } from '../operation.ts'

function checkUrl(url: string | undefined, { config }: ApiServices): void {
  const fault = url === undefined ? undefined : urlFault(url, config.webhookAllowPrivate)
  if (fault) throw invalid([{ path: '/body/url', message: fault }])
}

export const createWebhook: Operation<{ body: NewWebhook }> = {
  name: 'createWebhook',
  method: 'POST',
  path: '/v1/webhooks',
  tag: 'Webhooks',
  summary: 'Register a webhook endpoint',
  description:
    'Events are sent to it from the next one on, signed with `secret`, which is shown once only, in this response. A partner has at most 10 endpoints.',
  auth: 'key',
  scope: 'webhooks:write',
  body: NewWebhook,
  response: IssuedWebhook,
  atomic: true,
  errors: ['LIMIT_REACHED'],
  async handle({ partner, body }, services) {
    checkUrl(body.url, services)
    const { row, secret } = await services.db.transaction(trx =>
      insertWebhook(trx, services.vault, {
        partnerId: partner.partnerId,
        url: body.url,
        types: body.types ?? null,
        description: body.description ?? null
      })
    )
    return { ...presentWebhook(row), secret }
  }
}

export const listWebhooks: Operation<object> = {
  name: 'listWebhooks',
  method: 'GET',
  path: '/v1/webhooks',
  tag: 'Webhooks',
  summary: 'List webhook endpoints',
  description: 'All of them, never their secrets.',
  auth: 'key',
  scope: 'webhooks:read',
  response: WebhookList,
  errors: [],
  async handle({ partner }, { db }) {
    return { data: (await list(db, partner.partnerId)).map(presentWebhook) }
  }
}

export const getWebhook: Operation<{ params: WebhookPath }> = {
  name: 'getWebhook',
  method: 'GET',
  path: '/v1/webhooks/{id}',
  tag: 'Webhooks',
  summary: 'One webhook endpoint',
  description: 'Its settings, and how delivery to it goes.',
  auth: 'key',
  scope: 'webhooks:read',
  params: WebhookPath,
  response: Webhook,
  errors: ['NOT_FOUND'],
  async handle({ partner, params }, { db }) {
    return presentWebhook(await get(db, params.id, partner.partnerId))
  }
}

export const updateWebhook: Operation<{ params: WebhookPath; body: WebhookChange }> = {
  name: 'updateWebhook',
  method: 'PATCH',
  path: '/v1/webhooks/{id}',
  tag: 'Webhooks',
  summary: 'Change, disable or enable a webhook endpoint',
  description:
    'Fields left out stay as they are. An endpoint that is enabled continues where it stopped, with everything since; with `skip` it continues from now.',
  auth: 'key',
  scope: 'webhooks:write',
  params: WebhookPath,
  body: WebhookChange,
  response: Webhook,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner, params, body }, services) {
    checkUrl(body.url, services)
    if (body.skip && body.status !== 'ENABLED')
      throw invalid([{ path: '/body/skip', message: 'goes only with status ENABLED' }])
    const row = await services.db.transaction(trx =>
      change(
        trx,
        { id: params.id, partnerId: partner.partnerId, reason: 'PARTNER' },
        {
          url: body.url,
          types: body.types,
          description: body.description,
          enabled: body.status && body.status === 'ENABLED',
          skip: body.skip
        }
      )
    )
    services.bus.publish(WORK, WEBHOOKS, row.id)
    return presentWebhook(row)
  }
}

export const deleteWebhook: Operation<{ params: WebhookPath }> = {
  name: 'deleteWebhook',
  method: 'DELETE',
  path: '/v1/webhooks/{id}',
  tag: 'Webhooks',
  summary: 'Delete a webhook endpoint',
  description: 'Nothing more is sent to it; its deliveries are not listed any more.',
  auth: 'key',
  scope: 'webhooks:write',
  params: WebhookPath,
  response: DeletedWebhook,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner, params }, { db, bus }) {
    await db.transaction(trx => remove(trx, params.id, partner.partnerId))
    bus.publish(WORK, WEBHOOKS, params.id)
    return { webhookId: params.id, deleted: true }
  }
}

export const rotateWebhookSecret: Operation<{ params: WebhookPath }> = {
  name: 'rotateWebhookSecret',
  method: 'POST',
  path: '/v1/webhooks/{id}/rotate-secret',
  tag: 'Webhooks',
  summary: 'Give a webhook endpoint a new secret',
  description:
    'The new secret is shown once only, in this response. For 24 hours requests are signed with both, so that you can change yours at any moment. Only two secrets sign: another rotation within that time ends the older one at once. Send an Idempotency-Key, so that a repeat after a lost response does not rotate twice.',
  auth: 'key',
  scope: 'webhooks:write',
  params: WebhookPath,
  response: RotatedSecret,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner, params }, { db, vault, bus }) {
    const { secret, oldUntil } = await db.transaction(trx => rotateSecret(trx, vault, params.id, partner.partnerId))
    bus.publish(WORK, WEBHOOKS, params.id)
    return { webhookId: params.id, secret, oldSecretUntil: oldUntil.toISOString() }
  }
}

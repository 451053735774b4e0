// Figures of webhooks for metrics and the doctor.
import { type Db, rows } from '../postgres/connection.ts'
import { FAILING_FROM } from './endpoints.ts'

interface WebhookCounts {
  enabled: number
  failing: number
  /** By a response of 410 or by failures. */
  disabled: number
  /** Enabled ones that no living worker has held for 30 s, with something that was due before that. */
  unheld: number
  /** Events that failed or wait for one that did. */
  waiting: number
  /** Events between the endpoints' positions and the ends of their logs. */
  backlog: number
}

const LONG_AGO = `clock_timestamp() - interval '30 seconds'`

/** How many endpoints are in which state, and what waits. */
export async function countWebhooks(db: Db): Promise<WebhookCounts> {
  const [found] = await rows<WebhookCounts>(
    db,
    `select count(*) filter (where e.enabled and e.failures < ${FAILING_FROM}) as enabled,
            count(*) filter (where e.enabled and e.failures >= ${FAILING_FROM}) as failing,
            count(*) filter (where e.disabled_reason in ('GONE', 'FAILURES')) as disabled,
            count(*) filter (where e.enabled and p.suspended_at is null and p.plan_active
              and (s.worker is null or s.lease_until < ${LONG_AGO})
              and (e.next_at < ${LONG_AGO}
                   or ((e.paused_until is null or e.paused_until < ${LONG_AGO})
                       and (exists (select from webhook_pending w where w.endpoint_id = e.id and w.next_at < ${LONG_AGO})
                            -- A new event makes an endpoint due without a note at the endpoint.
                            or (l.position > e.position
                                and exists (select from events n where n.partner_id = e.partner_id and n.day >= e.day and n.position = e.position + 1
                                               and n.at < ${LONG_AGO})))))) as unheld,
            (select count(*) from webhook_pending) as waiting,
            coalesce(sum(greatest(0, coalesce(l.position, 0) - e.position)) filter (where e.enabled), 0)::bigint as backlog
       from webhook_endpoints e join partners p on p.id = e.partner_id
       left join webhook_senders s on s.worker = e.worker
       left join event_positions l on l.partner_id = e.partner_id`
  )
  return found as WebhookCounts
}

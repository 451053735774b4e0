// Webhooks: whether what is due is sent, and to whom nothing gets through.
import type { Db } from '../../db/postgres/connection.ts'
import { countWebhooks } from '../../db/webhooks/counts.ts'
import { type Finding, ok, warn } from './finding.ts'

export async function checkWebhooks(db: Db): Promise<Finding> {
  const check = 'webhooks'
  const { enabled, failing, disabled, unheld } = await countWebhooks(db)
  if (unheld > 0)
    return warn(
      check,
      `${unheld} endpoints have events to be sent, and no worker holds them`,
      'start a worker; if one runs, see its log'
    )
  const words = `${enabled} endpoints get their events, ${failing} are FAILING, ${disabled} were disabled by 410 or failures`
  return failing + disabled > 0
    ? warn(check, words, 'see `operator webhooks list`; their partners have to mend them')
    : ok(check, words)
}

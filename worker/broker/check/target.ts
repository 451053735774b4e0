// Which broker and account are checked: from the configuration and the arguments. The token comes from the environment alone,
// where other users of the machine do not see it.
import { parseArgs } from 'node:util'
import type { Config } from '../../../schemas/config/config.ts'
import { brokerAppIdForms } from '../../../schemas/partners.ts'
import type { CheckTarget } from './talk.ts'

/** Throws an Error that names what is missing. */
export function readTarget(
  args: string[],
  { config, token }: { config: Config; token: string | undefined }
): { target: CheckTarget; json: boolean; buys: boolean } {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  const options = { dialect: text, account: text, 'app-id': text, json: flag, 'read-only': flag }
  const { values } = parseArgs({ args, options })
  const dialect = values.dialect ?? config.brokerDialect
  if (dialect !== 'v3' && dialect !== 'next') throw new Error('--dialect must be v3 or next')
  const url = dialect === 'v3' ? config.brokerUrl : config.brokerNext?.url
  if (!url) throw new Error(`${dialect === 'v3' ? 'BROKER_URL' : 'BROKER_NEXT_URL'} is required`)
  if (!values.account || !/^\w[\w-]{0,63}$/.test(values.account)) throw new Error('--account must be an account id')
  const appId = values['app-id'] ?? (dialect === 'v3' ? '1' : '')
  if (!brokerAppIdForms[dialect].test(appId)) throw new Error(`--app-id must be an application id of ${dialect}`)
  if (!token) throw new Error('BROKER_CHECK_TOKEN is required: the token of the demo account')
  const appIdHeader = config.brokerNext?.appIdHeader ?? ''
  const target = { dialect, url, appIdHeader, appId, accountId: values.account, token } as const
  return { target, json: values.json ?? false, buys: !values['read-only'] }
}

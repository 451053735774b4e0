// operator requests: the partners' requests to the API, as they happen.
import type { Command } from 'commander'
import { getPartner } from '../../db/partners/partners.ts'
import type { RequestRow } from '../../db/partners/request-groups.ts'
import { newestRequest, presentRequest, tailRequests } from '../../db/partners/requests.ts'
import { openStore } from '../../db/platform/store.ts'
import { RequestsTail } from '../../schemas/commands/requests.ts'
import { type Context, withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { cleaned } from '../terminal/output.ts'
import { tailUntilInterrupted } from '../terminal/tail.ts'

/** Groups of requests that are read at once. */
const PAGE = 100
const REFUSED = 400
// Processes write at the same time, so a group may become visible after others with greater numbers: groups are read again from so far back.
const OVERLAP = 2000

export function addRequests(program: Command): void {
  const requests = program.command('requests').description('Requests of partners: tail')

  requests
    .command('tail')
    .description('Show requests as they end, of all partners or of one, until interrupted')
    .option('--partner <partnerId>', 'of one partner')
    .option('--errors', 'only those that were refused or failed')
    .addHelpText('after', examples('requests tail', 'requests tail --partner ptn_01jd… --errors --json'))
    .action(withoutStore(tail, { input: RequestsTail }))
}

/** Reads the log of all partners, or of one, from now on; ends when the process is interrupted. */
async function tail(context: Context, { partner, errors = false }: RequestsTail): Promise<undefined> {
  const store = await openStore(context.config, { name: 'cli' })
  try {
    if (partner) await getPartner(store.db, partner)
    await tailUntilInterrupted(async running => {
      const from = await newestRequest(store.db)
      let newest = from
      let shown = new Set<number>()
      context.note('Requests as they end; Ctrl-C ends.')
      return async () => {
        for (let after = Math.max(from, newest - OVERLAP); !running.stopped; ) {
          const least = errors ? REFUSED : 0
          const groups = await tailRequests(store.db, {
            partnerId: partner ?? null,
            after,
            shown: [...shown],
            least,
            limit: PAGE
          })
          for (const { n, requests } of groups) {
            after = n
            shown.add(n)
            for (const row of requests) process.stdout.write(`${lineOf(row, context.json)}\n`)
          }
          newest = Math.max(newest, after)
          if (groups.length < PAGE) break
        }
        shown = new Set([...shown].filter(n => n > newest - OVERLAP))
      }
    })
  } finally {
    await store.close()
  }
}

function lineOf(row: RequestRow, json: boolean): string {
  const shown = presentRequest(row)
  if (json) return JSON.stringify({ partnerId: row.partnerId, ...shown })
  const { at, method, path, status, error, ms, traderExternalId, requestId } = shown
  const more = [error, traderExternalId].filter(text => text !== null).join(' ')
  return cleaned(`${at} ${row.partnerId} ${status} ${method} ${path} ${ms} ms${more ? ` ${more}` : ''} ${requestId}`)
}

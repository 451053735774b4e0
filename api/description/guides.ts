// The words of the description that belong to no single operation: what the service is, the guides beside this
// file, the table of errors, and what each group of operations is about.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Operation, Tag } from '../operation.ts'
import { errorSections } from './errors.ts'

export const chapters = [
  'overview',
  'first-order',
  'testing',
  'retries',
  'waiting',
  'client',
  'events',
  'webhooks',
  'analytics',
  'acting-as-a-trader',
  'copy-trading',
  'marketplace',
  'rate-limits',
  'errors',
  'going-live',
  'versions',
  'security'
] as const

type Chapter = (typeof chapters)[number]

/** The guides as one Markdown text, for a service at `baseUrl` with these operations. */
export function guides(baseUrl: string, operations: Operation[]): string {
  return chapters.map(name => guide(name, baseUrl, operations)).join('\n\n')
}

/** One guide as Markdown. */
export function guide(name: Chapter, baseUrl: string, operations: Operation[]): string {
  const { info, paths } = released()
  const known = (row: Operation) => paths[row.path]?.[row.method.toLowerCase()] !== undefined
  return readFileSync(join(import.meta.dirname, 'guides', `${name}.md`), 'utf8')
    .trim()
    .replaceAll('{base_url}', baseUrl)
    .replaceAll('{errors}', errorSections())
    .replaceAll('{released}', info.version)
    .replaceAll('{added}', listed(operations.filter(row => !known(row))))
    .replaceAll('{deprecated}', listed(operations.filter(({ deprecated }) => deprecated)))
}

interface Released {
  info: { version: string }
  paths: Record<string, Record<string, unknown> | undefined>
}

/** The description of the last release, which each build is compared with. */
function released(): Released {
  return JSON.parse(readFileSync(join(import.meta.dirname, '../../schemas/released/1.0.0.json'), 'utf8')) as Released
}

function listed(operations: Operation[]): string {
  return operations.map(({ method, path }) => `\`${method} ${path}\``).join(', ') || 'none.'
}

/** What each group of operations is about, in the order of the specification. */
export const tags: Record<Tag, string> = {
  Identity: 'Who the key belongs to and what it may do.',
  Accounts:
    "A trader's broker accounts: upload the tokens once, choose the active account, read its balance live. Tokens are stored encrypted and never returned.",
  Orders:
    'Binary, digit and multiplier contracts: place, close, list. Placing is idempotent on `clientOrderId`; a repeat never buys twice.',
  Positions: 'Contracts that are open now, with what a sale would bring.',
  'Copy trading': "Orders of a leader, copied to its followers' accounts as soon as they are bought.",
  AI: 'Signals and analyses computed from candles. They describe the recent past and promise nothing.',
  Templates: 'Landing pages for your brand, deployed in one call and served by this service.',
  Keys: "The partner's API keys, managed with the cookie `service_session` and never with a key.",
  Traders: "Traders' own accounts with e-mail and password, and their sessions.",
  'Trade records': 'Trades made elsewhere, recorded once each, for history and leaderboard.',
  Events:
    'What happened to the partner, in the order in which it happened: a log with cursors that misses nothing. Read it by page, or wait for the next event.',
  Webhooks:
    'Addresses of yours to which signed events are sent: endpoints, their deliveries, and sending events again.',
  Analytics:
    'Revenue, traders, activity and marketplace earnings by time, exact at every moment: whatever was committed before `asOf` is counted. As JSON, or as CSV with `Accept: text/csv`.',
  Usage: 'What was used in the billing period, and this description.',
  Community:
    'Profiles, leaderboard, messages and shared bots of one partner. The acting party is the trader whose session comes with the key, else the partner itself.',
  Marketplace:
    "Bots that are written, sold and reviewed across partners, what they earn, and payouts. Money always moves through the partner's wallet.",
  Admin: "Acts for the platform, on any partner's record. Needs a key that only the operator can issue."
}

// operator analytics: the last days of a partner as bars, whether the sums are those of the orders, and whether the broker's
// report agrees.
import type { Command } from 'commander'
import { type ReconciledRow, readReconciliation } from '../../db/analytics/reconciliation.ts'
import { findReportToken } from '../../db/analytics/report-tokens.ts'
import { type RevenueRow, readRevenue } from '../../db/analytics/revenue.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import {
  type Difference,
  findAnalyticsDifferences,
  firstComparableDay,
  markDifferences
} from '../../db/analytics/verify.ts'
import { beginningOfDays, endOfPresent, isUnknownZone } from '../../db/analytics/windows.ts'
import { findPartnerIds } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { requestFromWorkers } from '../../db/platform/broker-requests.ts'
import { ReconcileAnalytics, ShowAnalytics, VerifyAnalytics } from '../../schemas/commands/analytics.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { timezoneFault } from '../../schemas/fields/timezones.ts'
import { withWorkers } from '../orders/doubt.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { lines, table } from '../terminal/output.ts'
import { UsageError } from '../terminal/refusals.ts'
import { type Days, drawDays } from './bars.ts'

const DAY_MS = 86_400_000
// The bound of a report with many pages.
const RECONCILE_TIMEOUT_MS = 600_000

export function addAnalytics(program: Command): void {
  const analytics = program
    .command('analytics')
    .description("Draw a partner's last 30 days; verify compares all sums with the orders")
    .option('--partner <partnerId>', 'whose; may be left out while there is one partner')
    .option('--days <count>', 'how many days up to today', '30')
    .option('--mode <mode>', 'REAL, DEMO or ALL', 'REAL')
    .option('--timezone <name>', 'by whose clocks days begin', 'UTC')
    .addHelpText(
      'after',
      examples(
        'analytics --partner ptn_01jd…',
        'analytics --partner ptn_01jd… --mode DEMO --timezone Europe/Berlin --json'
      )
    )
    .action(withStore(show, { input: ShowAnalytics, show: drawDays }))

  analytics
    .command('reconcile')
    .description("Compare markups with the broker's own report; exit code 1 when it could not be read")
    .option('--partner <partnerId>', 'whose; may be left out while there is one partner')
    .option('--day <date>', 'one day of UTC, today among them; without it, what is due')
    .option('--days <count>', 'how many days up to today are shown', '30')
    .addHelpText('after', examples('analytics reconcile', 'analytics reconcile --partner ptn_01jd… --day 2026-11-21'))
    .action(
      withStore(reconcile, {
        input: ReconcileAnalytics,
        show: ({ data, ...facts }) => `${lines(facts)}\n\n${data.length === 0 ? 'Nothing to compare.' : table(data)}`
      })
    )

  analytics
    .command('verify')
    .description(
      'Compare the sums of analytics with the orders, and name every difference; exit code 1 when there is one'
    )
    .option('--partner <partnerId>', 'of one partner')
    .option('--days <count>', 'how many days up to today', '92')
    .option('--repair', 'recompute what differs')
    .addHelpText('after', examples('analytics verify', 'analytics verify --partner ptn_01jd… --days 7 --repair'))
    .action(withStore(verify, { input: VerifyAnalytics, acts: true }))
}

interface ReconcileResult {
  compared: number
  rejected: number
  failed: number
  token: string
  reason: string | null
  complete: boolean
  asOf: string
  data: ReturnType<typeof presentReconciled>[]
}

async function reconcile(opened: Opened, { partner, day, days }: ReconcileAnalytics): Promise<ReconcileResult> {
  const { db, note, fail } = opened
  const partnerId = await partnerOf(db, partner)
  if ((await findReportToken(db, partnerId)) === undefined)
    throw new ApiError(
      'NOT_FOUND',
      `No token for the broker's report is stored for the application of ${partnerId}: the partner stores it with POST /v1/analytics/reconciliation/token.`
    )
  note("Reading the broker's report…")
  const done = await withWorkers(opened, tools =>
    requestFromWorkers<{ compared: number; rejected: number; failed: number }>(db, tools, {
      kind: 'reconcileMarkups',
      key: `${partnerId} ${day ?? 'due'}`,
      data: { partnerId, ...(day === undefined ? {} : { day }) },
      timeoutMs: RECONCILE_TIMEOUT_MS
    })
  )
  const token = await findReportToken(db, partnerId)
  if (done.rejected > 0) fail('The broker refused the token for its report.')
  else if (done.failed > 0) fail("The broker's report could not be read.")
  const to = day === undefined ? new Date() : new Date(Date.parse(day) + DAY_MS)
  const from = day === undefined ? new Date(to.getTime() - days * DAY_MS) : new Date(day)
  const window = { partnerId, from: from.toISOString(), to: to.toISOString(), currency: null }
  const { data, asOf, complete } = await readReconciliation(db, window)
  return {
    ...done,
    token: token?.status ?? 'NONE',
    reason: token?.reason ?? null,
    complete,
    asOf: asOf.toISOString(),
    data: data.map(presentReconciled)
  }
}

async function show({ db }: Opened, { partner, days, mode, timezone }: ShowAnalytics): Promise<Days> {
  const fault = timezoneFault(timezone)
  if (fault) throw new UsageError(`--timezone ${fault}: ${timezone}`)
  const partnerId = await partnerOf(db, partner)
  const to = await endOfPresent(db, partnerId)
  const first = await beginningOfDays(db, { timezone, days }).catch(error => {
    throw isUnknownZone(error) ? new UsageError(`--timezone is not known to the database: ${timezone}`) : error
  })
  const from = first.toISOString()
  const requested = {
    partnerId,
    from,
    to: to.toISOString(),
    present: true,
    timezone,
    interval: 'day',
    accountMode: mode,
    currency: null,
    groupBy: null
  } as const
  const { data, asOf, complete } = await readRevenue(db, requested)
  return { partnerId, timezone, asOf: asOf.toISOString(), complete, data: data.map(row => dayOf(row, timezone)) }
}

function dayOf(
  { start, currency, contracts, traders, stake, payout, markup, markupUnknown }: RevenueRow,
  timezone: string
): Days['data'][number] {
  // By noon: PostgreSQL, by whose time zones days begin, and this process may have data of different years about a zone.
  const day = new Intl.DateTimeFormat('en-CA', { timeZone: timezone }).format(start.getTime() + DAY_MS / 2)
  return {
    day,
    currency,
    contracts,
    traders,
    stake: Number(stake),
    payout: Number(payout),
    markup: Number(markup),
    markupUnknown
  }
}

/** The partner that is named, or the only one there is. */
async function partnerOf(db: Opened['db'], named: string | undefined): Promise<string> {
  const found = await findPartnerIds(db, { named, limit: 2 })
  if (found.length === 1) return found[0] as string
  if (named !== undefined || found.length === 0)
    throw new ApiError('NOT_FOUND', `There is no partner ${named ?? 'yet'}.`)
  throw new ApiError('VALIDATION_FAILED', 'There are several partners: say whose analytics with --partner.')
}

function presentReconciled({ ours, theirs, difference, missingHere, missingThere, ...row }: ReconciledRow) {
  return {
    ...row,
    ours: Number(ours.markup),
    ourContracts: ours.contracts,
    markupUnknown: ours.markupUnknown,
    theirs: theirs && Number(theirs.markup),
    theirContracts: theirs?.contracts ?? null,
    difference: difference === null ? null : Number(difference),
    missingHere,
    missingThere
  }
}

async function verify({ db, actor, fail }: Opened, { partner, days, repair }: VerifyAnalytics): Promise<object> {
  const partnerId = partner === undefined ? null : await partnerOf(db, partner)
  const found: Difference[] = []
  const today = Date.now()
  // Day by day, so that no statement reads more than a day's orders.
  for (let back = days; back >= 0; back--) {
    const day = new Date(today - back * DAY_MS)
    found.push(...(await findAnalyticsDifferences(db, { from: day, to: day, partnerId })))
  }
  if (repair && found.length > 0) {
    await db.transaction(async trx => {
      await markDifferences(trx, found)
      await recordAudit(trx, { actor, action: 'analytics.repair', target: partnerId ?? 'all' })
    })
    while (await addUpAnalytics(db));
  } else if (found.length > 0) fail(`${found.length} sums differ from the orders; --repair recomputes them.`)
  // Orders of earlier days were dropped: only the sums contain them.
  const comparedFrom = await firstComparableDay(db)
  return { days, differences: found.length, repaired: repair === true && found.length > 0, comparedFrom, found }
}

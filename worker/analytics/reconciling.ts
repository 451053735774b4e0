// Reconciliation of markups: reads the broker's report of each application whose partner stored a token for it, day by day, and
// stores it beside the orders. Runs every hour; a day is due once its report is final.
import { dueDays, type ReportedApplication, storeReconciliation } from '../../db/analytics/reconciliation.ts'
import { listReportTokens, rejectReportToken, type UsableReportToken } from '../../db/analytics/report-tokens.ts'
import { noteRefusal } from '../accounts/applications.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { ReportAccess } from '../broker/markup-report.ts'
import type { WorkerServices } from '../services.ts'

type Services = Pick<WorkerServices, 'db' | 'vault' | 'brokers' | 'log'>

/** Days before today that are compared after a token was stored. */
const BACK_DAYS = 30
const PAGE = 50
/** Before the job expires: the next one goes on with what is due then. */
const LIMIT_MS = 1_200_000

/** What a run did. */
interface Reconciled {
  /** Days compared. */
  compared: number
  /** Tokens that the broker refused. */
  rejected: number
  /** Applications whose report could not be read; they are tried again. */
  failed: number
}

/**
 * Compares what is due of every partner, as the workers' clock starts it. Where that fails for one on our side, the others are compared
 * all the same; throws the first failure once all had their turn.
 */
export async function reconcileDue(services: Services): Promise<void> {
  const signal = AbortSignal.timeout(LIMIT_MS)
  const failures: unknown[] = []
  for (let after: string | undefined = ''; after !== undefined && !signal.aborted; ) {
    const tokens: UsableReportToken[] = await listReportTokens(services.db, services.vault, { after, limit: PAGE })
    for (const token of tokens) {
      if (signal.aborted) break
      await reconcileOne(services, token, { signal }).catch((error: unknown) => {
        services.log.warn({ err: error, partnerId: token.partnerId }, 'the markups of a partner could not be compared')
        failures.push(error)
      })
    }
    after = tokens.length === PAGE ? tokens.at(-1)?.partnerId : undefined
  }
  if (failures.length > 0) throw failures[0]
}

/** Compares one partner's application: the day that is named, today among them, or what is due. */
export async function reconcilePartner(
  services: Services,
  { partnerId, day }: { partnerId: string; day?: string }
): Promise<Reconciled> {
  const [token] = await listReportTokens(services.db, services.vault, { partnerId, after: '', limit: 1 })
  const none = { compared: 0, rejected: 0, failed: 0 }
  return token === undefined ? none : reconcileOne(services, token, day === undefined ? {} : { days: [day] })
}

/** One day after the other, so that an application's calls do not come all at once; the first failure ends it. */
async function reconcileOne(
  services: Services,
  token: UsableReportToken,
  { days, signal }: { days?: string[]; signal?: AbortSignal }
): Promise<Reconciled> {
  const { db, brokers, log } = services
  const { partnerId, dialect, appId, version } = token
  const application: ReportedApplication = { partnerId, dialect, appId }
  const access: ReportAccess = { appId, ownerId: partnerId, token: async () => token.open() }
  let compared = 0
  try {
    for (const day of days ?? (await dueDays(db, application, BACK_DAYS))) {
      if (signal?.aborted) break
      const theirs = await brokers.of(dialect).markupReport(access, day)
      await storeReconciliation(db, application, { day, theirs })
      compared++
    }
    return { compared, rejected: 0, failed: 0 }
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error
    await noteRefusal(services, { dialect, appId }, error)
    const facts = { partnerId, dialect, appId, brokerCode: error.brokerCode }
    if (!error.rejected) {
      log.warn({ ...facts, err: error }, "the broker's report of markups could not be read")
      return { compared, rejected: 0, failed: 1 }
    }
    const reason = LACKING.has(error.brokerCode) ? 'SCOPE_MISSING' : 'TOKEN_REFUSED'
    await rejectReportToken(db, { partnerId, version, reason })
    log.warn({ ...facts, reason }, 'the broker refuses the token of a report')
    return { compared, rejected: 1, failed: 0 }
  }
}

/** The dialects' codes for a token that is valid, but not for reports. */
const LACKING = new Set(['PermissionDenied', 'RestAccessDenied', 'RestPermissionDenied'])

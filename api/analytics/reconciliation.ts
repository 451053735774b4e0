// /v1/analytics/reconciliation: markups by our orders beside those of the broker's own report, and the token that reads it.
import { type ReconciledRow, readReconciliation } from '../../db/analytics/reconciliation.ts'
import {
  deleteReportToken,
  findReportToken,
  type ReportToken,
  storeReportToken
} from '../../db/analytics/report-tokens.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import {
  NewReportToken,
  Reconciliation,
  ReconciliationQuery,
  RemovedReportToken,
  StoredReportToken
} from '../../schemas/reconciliation.ts'
import type { Operation } from '../operation.ts'
import { presentWindow, windowOf } from './window.ts'

export const getReconciliation: Operation<{ query: ReconciliationQuery }> = {
  name: 'getReconciliation',
  method: 'GET',
  path: '/v1/analytics/reconciliation',
  tag: 'Analytics',
  summary: "Markup compared with the broker's report",
  description:
    "What your application earned by your orders and by the broker's own report, by day and currency, with contracts that only one side knows. Days are those of UTC, as in the report; a day that is partly in the window is shown as a whole. Real accounts and contracts with a markup count. Workers compare each day once the report of it is final, two hours after its end, for which a token has to be stored with `POST /v1/analytics/reconciliation/token`; days that have not been compared are left out.",
  auth: 'key',
  scope: 'analytics:read',
  query: ReconciliationQuery,
  response: Reconciliation,
  csv: true,
  weight: 5,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const { partnerId } = partner
    const window = await windowOf(db, partnerId, query)
    const { from, to, currency } = window
    const found = await readReconciliation(db, { partnerId, from, to, currency })
    const token = await findReportToken(db, partnerId)
    return { ...presentWindow(window, found), token: presentStatus(token), data: found.data.map(present) }
  }
}

function present({ ours, theirs, difference, ...row }: ReconciledRow) {
  return {
    day: row.day,
    application: row.application,
    currency: row.currency,
    ours: { ...ours, markup: Number(ours.markup) },
    theirs: theirs && { ...theirs, markup: Number(theirs.markup) },
    difference: difference === null ? null : Number(difference),
    missingHere: row.missingHere,
    missingThere: row.missingThere
  }
}

const presentStatus = (token: ReportToken | undefined) => ({
  status: token?.status ?? 'NONE',
  reason: token?.reason ?? null
})

export const storeReconciliationToken: Operation<{ body: NewReportToken }> = {
  name: 'storeReconciliationToken',
  method: 'POST',
  path: '/v1/analytics/reconciliation/token',
  tag: 'Analytics',
  summary: "Store a token for the broker's report",
  description:
    "Stores a token of the owner of your application at the broker, encrypted as traders' tokens are, in place of an earlier one. It needs the scope `read` of the API v3, `application_read` of its successor, and no other: leave out `trade`. The broker is not called here: a token that it refuses is shown as REJECTED with a reason after the next comparison.",
  auth: 'key',
  scope: 'analytics:write',
  body: NewReportToken,
  response: StoredReportToken,
  atomic: true,
  errors: [],
  async handle({ partner, body }, { db, vault }) {
    const { application, storedAt, ...stored } = await storeReportToken(db, vault, {
      partnerId: partner.partnerId,
      token: body.token
    })
    return { application, ...presentStatus(stored as ReportToken), storedAt: storedAt.toISOString() }
  }
}

export const removeReconciliationToken: Operation = {
  name: 'removeReconciliationToken',
  method: 'DELETE',
  path: '/v1/analytics/reconciliation/token',
  tag: 'Analytics',
  summary: "Remove the token for the broker's report",
  description: 'Deletes the stored token: nothing is compared from then on. What was compared stays.',
  auth: 'key',
  scope: 'analytics:write',
  response: RemovedReportToken,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner }, { db }) {
    if (!(await deleteReportToken(db, partner.partnerId))) throw new ApiError('NOT_FOUND', 'No token is stored.')
    return { removed: true }
  }
}

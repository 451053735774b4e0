// Reconciliation of markups with the broker's report: the request, its rows, and the token that reads the report.
import type { FromSchema } from 'json-schema-to-ts'
import { analyticsWindow, interval } from './analytics.ts'
import { currency, money, nullable, timestamp } from './fields/fields.ts'

export const ReconciliationQuery = {
  type: 'object',
  properties: {
    from: analyticsWindow.from,
    to: analyticsWindow.to,
    currency: { ...currency, description: 'Only this account currency. Default: all, a row for each.' }
  }
} as const
export type ReconciliationQuery = FromSchema<typeof ReconciliationQuery>

const only = <Fields extends object>(properties: Fields) =>
  ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties }) as const
const count = (description: string, example: number) =>
  ({ type: 'integer', minimum: 0, description, examples: [example] }) as const
const at = (description: string, example: string) => ({ ...timestamp, description, examples: [example] }) as const

const statusOfToken = {
  status: {
    type: 'string',
    enum: ['NONE', 'CONNECTED', 'REJECTED'],
    description:
      'NONE: none is stored for the present application. REJECTED: the broker refused it; store another one.',
    examples: ['CONNECTED']
  },
  reason: {
    type: ['string', 'null'],
    enum: ['TOKEN_REFUSED', 'SCOPE_MISSING', null],
    description: 'When REJECTED: the broker does not take it, or it lacks the scope to read reports.',
    examples: [null]
  }
} as const
const application = { type: 'string', description: "The application's id at the broker.", examples: ['1089'] } as const
const ids = (description: string, example: string) =>
  ({ type: 'array', maxItems: 100, items: { type: 'string' }, description, examples: [[example]] }) as const

export const Reconciliation = only({
  from: at('Start of the window, inclusive.', '2026-10-23T00:00:00.000Z'),
  to: at('End of the window, exclusive.', '2026-11-22T00:00:00.000Z'),
  timezone: { type: 'string', description: 'UTC: by whose clocks the broker reports.', examples: ['UTC'] },
  interval,
  asOf: at('When the day of the window that was compared longest ago was compared.', '2026-11-22T02:25:07.000Z'),
  complete: {
    type: 'boolean',
    description:
      'false while a day of the window is not over or not compared, the report of it is not final, a markup is unknown, or an order is in doubt.',
    examples: [true]
  },
  token: { ...only(statusOfToken), description: 'The token that reads the report.' },
  data: {
    type: 'array',
    description: 'A row for each day, application and currency, oldest first; none for a day without contracts.',
    items: only({
      day: { type: 'string', format: 'date', description: 'The day, of UTC.', examples: ['2026-11-21'] },
      application,
      currency: nullable({ ...currency, description: 'Currency of the amounts; null where the account has none.' }),
      ours: {
        ...only({
          contracts: count('Contracts bought with a markup, or with one that is not known.', 1204),
          markup: { ...money, description: 'Sum of what is known.', examples: [361.2] },
          markupUnknown: count('Those of them whose markup the broker did not report.', 0)
        }),
        description: 'By your orders.'
      },
      theirs: {
        type: ['object', 'null'],
        additionalProperties: false,
        required: ['contracts', 'markup'],
        properties: {
          contracts: count(
            "Contracts in the broker's report, without those that another partner bought with the same application.",
            1204
          ),
          markup: { ...money, description: 'Their markup.', examples: [361.2] }
        },
        description:
          "null where the broker's report has no sum in this currency, or has sums only and another partner bought contracts with the same application on that day."
      },
      difference: { type: ['number', 'null'], description: 'Our markup less theirs.', examples: [0] },
      missingHere: ids(
        "The broker's transaction ids of purchases that no order has, at most 100. The report has no contract ids. Empty where the broker reports sums only.",
        '579315930728'
      ),
      missingThere: ids(
        "Order ids of contracts that the broker's report does not have, at most 100. Empty where the broker reports sums only.",
        'ord_01jd3y8k7hf4tamd5vq6zjb2xe'
      )
    })
  }
})

export const NewReportToken = {
  type: 'object',
  required: ['token'],
  properties: {
    token: {
      type: 'string',
      minLength: 10,
      maxLength: 4096,
      description: "A token of the application's owner at the broker, with the scope to read.",
      examples: ['a1-owner-of-the-application']
    }
  }
} as const
export type NewReportToken = FromSchema<typeof NewReportToken>

export const StoredReportToken = only({
  application,
  ...statusOfToken,
  storedAt: at('When it was stored.', '2026-11-22T09:00:00.000Z')
})

export const RemovedReportToken = only({
  removed: { type: 'boolean', enum: [true], description: 'Always true.', examples: [true] }
})

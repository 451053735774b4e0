// Copy trading: leaders, following, and the state of a follow.
import type { FromSchema } from 'json-schema-to-ts'
import {
  accountId,
  accountMode,
  currency,
  idField,
  money,
  nullable,
  timestamp,
  traderExternalId
} from './fields/fields.ts'

const leaderId = idField('trd', 'Identifier of the leader.')
const percent = { type: 'number', description: 'Percent.', examples: [12.5] } as const
const scope = {
  type: 'string',
  enum: ['tenant', 'global'],
  description: "tenant: the caller's own traders; global: those of every partner whose community profile is public.",
  examples: ['tenant']
} as const

export const LeadersQuery = {
  type: 'object',
  properties: { scope: { ...scope, default: 'tenant' }, accountMode, currency }
} as const
export type LeadersQuery = FromSchema<typeof LeadersQuery>

export const Leader = {
  type: 'object',
  additionalProperties: false,
  required: [
    'leaderId',
    'displayName',
    'scope',
    'accountMode',
    'currency',
    'followers',
    'trades',
    'winRatePct',
    'pnl',
    'maxDrawdownPct',
    'maxDrawdown'
  ],
  properties: {
    leaderId,
    displayName: {
      type: 'string',
      description: "The leader's name as it is shown; Trader and four characters where it has none.",
      examples: ['Ada']
    },
    scope,
    accountMode: { ...accountMode, description: "Of the leader's active account." },
    currency: { ...nullable(currency), description: "Of the leader's active account; null while it is not known." },
    followers: { type: 'integer', minimum: 0, description: 'Active followers.', examples: [42] },
    trades: {
      type: 'integer',
      minimum: 10,
      description: 'Orders closed in the last 30 days in this mode and currency, copies left out.',
      examples: [128]
    },
    winRatePct: { ...percent, description: 'Share of them that made a profit.', examples: [55.5] },
    pnl: { ...money, description: 'Their profit or loss together.', examples: [310.4] },
    maxDrawdownPct: {
      ...percent,
      description:
        'Largest fall of the running profit from its peak, in percent of all stakes of the 30 days. Of contracts that closed in the same second losses come first.',
      examples: [8.1]
    },
    maxDrawdown: { ...money, description: 'The same fall as an amount.', examples: [42.5] }
  }
} as const

export const LeaderList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: {
    data: { type: 'array', description: 'REAL before DEMO, then by currency, the best first.', items: Leader }
  }
} as const

export const FollowRequest = {
  type: 'object',
  required: ['traderExternalId', 'leaderId'],
  properties: {
    traderExternalId,
    leaderId: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description: leaderId.description,
      examples: leaderId.examples
    },
    riskPct: {
      type: 'number',
      minimum: 1,
      maximum: 200,
      default: 100,
      description: "A copy's stake in percent of the leader's.",
      examples: [50]
    },
    maxDrawdownPct: {
      type: 'number',
      minimum: 5,
      maximum: 90,
      default: 20,
      description:
        'What may be lost, in percent of the balance at the time of following. An order is copied only if what is lost since, the worst case of open copies and its own worst case (the stake; of a multiplier its stop loss, if it has one) stay within it. Until it is bought, a copy under another application than the leader’s counts with the most that the application may charge.',
      examples: [20]
    },
    mirrorCloses: {
      type: 'boolean',
      default: true,
      description:
        'Whether copies are sold when the leader closes the order they copy. A stop loss or take profit that the leader changes later is set on its open copies either way.',
      examples: [true]
    }
  }
} as const
export type FollowRequest = FromSchema<typeof FollowRequest>

export const UnfollowRequest = {
  type: 'object',
  required: ['traderExternalId', 'leaderId'],
  properties: { traderExternalId, leaderId: FollowRequest.properties.leaderId }
} as const
export type UnfollowRequest = FromSchema<typeof UnfollowRequest>

const follow = {
  followId: idField('fol', 'Identifier of the follow.'),
  traderExternalId,
  leaderId,
  accountId: {
    ...accountId,
    description: 'The account that copies go to: the one that was active when the follow began.'
  },
  accountMode,
  currency: { ...nullable(currency), description: 'Of that account; null while it is not known.' },
  riskPct: { ...percent, description: "A copy's stake in percent of the leader's.", examples: [50] },
  maxDrawdownPct: {
    ...percent,
    description: 'What may be lost, in percent of the balance at the time of following.',
    examples: [20]
  },
  mirrorCloses: {
    type: 'boolean',
    description: 'Whether copies are sold when the leader closes its order.',
    examples: [true]
  },
  status: {
    type: 'string',
    enum: ['ACTIVE', 'PAUSED_DRAWDOWN', 'PAUSED_MISMATCH', 'STOPPED'],
    description:
      "PAUSED_DRAWDOWN: no copy fits into maxDrawdownPct any more; following again resumes it. PAUSED_MISMATCH: the leader's account differs from accountId in mode or currency; it resumes by itself when they agree again.",
    examples: ['ACTIVE']
  },
  openCopies: { type: 'integer', minimum: 0, description: 'Copies not closed yet.', examples: [1] },
  skippedCopies: {
    type: 'integer',
    minimum: 0,
    description: "The leader's orders that were not copied.",
    examples: [2]
  },
  lastSkipped: {
    type: ['object', 'null'],
    additionalProperties: false,
    required: ['orderId', 'reason', 'at'],
    properties: {
      orderId: idField('ord', "The leader's order."),
      reason: {
        type: 'string',
        enum: [
          'DRAWDOWN',
          'MISMATCH',
          'DISCONNECTED',
          'PARTNER_INACTIVE',
          'LEADER_CLOSED',
          'LEADER_PRIVATE',
          'SAME_ACCOUNT',
          'TRADING_HALTED'
        ],
        description:
          'DRAWDOWN: it did not fit into maxDrawdownPct. MISMATCH: the accounts differ in mode or currency. DISCONNECTED: the broker refused the token. PARTNER_INACTIVE: the plan is unpaid or suspended. LEADER_CLOSED: the leader had closed it already. LEADER_PRIVATE: the leader belongs to another partner, whose profile is not public any more. SAME_ACCOUNT: the leader placed it on this very account. TRADING_HALTED: placing was halted.',
        examples: ['DRAWDOWN']
      },
      at: timestamp
    },
    description: 'The last of them, and why; null when there was none.'
  },
  createdAt: timestamp
} as const

export const Follow = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(follow) as (keyof typeof follow)[],
  properties: follow
} as const

export const FollowStanding = {
  type: 'object',
  additionalProperties: false,
  required: [...Follow.required, 'copiedOrders', 'pnl', 'drawdownPct'],
  properties: {
    ...follow,
    copiedOrders: { type: 'integer', minimum: 0, description: 'Copies made, refused ones included.', examples: [17] },
    pnl: { ...money, description: 'Profit or loss of the closed copies.', examples: [-3.2] },
    drawdownPct: {
      ...nullable(percent),
      description: 'Loss since following in percent of the balance then; 0 in profit, null for a balance of 0.',
      examples: [1.6]
    }
  }
} as const

export const FollowList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The newest first.', items: FollowStanding } }
} as const

export const CopyQuery = { type: 'object', required: ['traderExternalId'], properties: { traderExternalId } } as const
export type CopyQuery = FromSchema<typeof CopyQuery>

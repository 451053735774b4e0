// Copy trading: leaders, following, and how a follow stands.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, money, nullable, timestamp, traderExternalId } from './fields.ts'

const leaderId = idField('trd', 'Identifier of the leader.')
const percent = { type: 'number', description: 'Percent.', examples: [12.5] } as const
const scope = {
  type: 'string',
  enum: ['tenant', 'global'],
  description: "tenant: the caller's own traders; global: those of every partner whose community profile is public.",
  examples: ['tenant']
} as const

export const LeadersQuery = { type: 'object', properties: { scope: { ...scope, default: 'tenant' } } } as const
export type LeadersQuery = FromSchema<typeof LeadersQuery>

export const Leader = {
  type: 'object',
  additionalProperties: false,
  required: ['leaderId', 'displayName', 'scope', 'followers', 'trades', 'winRatePct', 'pnl', 'maxDrawdownPct'],
  properties: {
    leaderId,
    displayName: { type: 'string', description: "The leader's name as it is shown.", examples: ['Ada'] },
    scope,
    followers: { type: 'integer', minimum: 0, description: 'Active followers.', examples: [42] },
    trades: {
      type: 'integer',
      minimum: 10,
      description: 'Orders closed in the last 30 days, copies left out.',
      examples: [128]
    },
    winRatePct: { ...percent, description: 'Share of them that made a profit.', examples: [55.5] },
    pnl: { ...money, description: 'Their profit or loss together.', examples: [310.4] },
    maxDrawdownPct: {
      ...percent,
      description: 'Largest fall of the running profit from its peak, in percent of all stakes of the 30 days.',
      examples: [8.1]
    }
  }
} as const

export const LeaderList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The best first.', items: Leader } }
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
      description: 'The follow pauses when its loss exceeds this share of the balance at the time of following.',
      examples: [20]
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
  riskPct: { ...percent, description: "A copy's stake in percent of the leader's.", examples: [50] },
  maxDrawdownPct: { ...percent, description: 'Where the follow pauses.', examples: [20] },
  status: {
    type: 'string',
    enum: ['ACTIVE', 'PAUSED_DRAWDOWN', 'STOPPED'],
    description: 'PAUSED_DRAWDOWN: the loss reached maxDrawdownPct; following again resumes.',
    examples: ['ACTIVE']
  },
  createdAt: timestamp
} as const

export const Follow = {
  type: 'object',
  additionalProperties: false,
  required: ['followId', 'traderExternalId', 'leaderId', 'riskPct', 'maxDrawdownPct', 'status', 'createdAt'],
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

// GET /v1/me: the partner's present state.
import { Partner } from '../schemas/partners.ts'
import type { Operation } from './operation.ts'

export const getMe: Operation<object> = {
  name: 'getMe',
  method: 'GET',
  path: '/v1/me',
  tag: 'Identity',
  summary: 'The partner behind the key',
  description: 'Name, plan and standing of the partner, how many traders it has, and the scopes of the key used.',
  auth: 'key',
  scope: null,
  response: Partner,
  batched: true,
  errors: [],
  async handle({ partner }, { batched }): Promise<Partner> {
    return {
      partnerId: partner.partnerId,
      name: partner.partnerName,
      plan: partner.plan,
      saasStatus: partner.saasStatus,
      tradersCount: await batched.traders(partner.partnerId),
      scopes: partner.scopes,
      ...(partner.testOf === null ? {} : { test: true })
    }
  }
}

// GET /v1/me: the partner's present state.
import { Partner } from '../schemas/partners.ts'
import type { Operation } from './operation.ts'
import { FactsChanged } from './request/proof.ts'

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
  proves: true,
  errors: [],
  async handle({ partner }, { batched }): Promise<Partner> {
    const { proof } = partner
    const tradersCount = await batched.traders({ partnerId: partner.partnerId, caller: proof ?? null })
    if (tradersCount === undefined) throw new FactsChanged()
    if (proof) proof.proven = true
    return {
      partnerId: partner.partnerId,
      name: partner.partnerName,
      plan: partner.plan,
      saasStatus: partner.saasStatus,
      tradersCount,
      scopes: partner.scopes,
      ...(partner.testOf === null ? {} : { test: true })
    }
  }
}

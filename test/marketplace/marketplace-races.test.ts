// What two changes of the marketplace do to each other that lock the same rows: each waits for the other, none fails, and nothing is
// stored for a trader behind its erasure.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCommunityBot, likeCommunityBot } from '../../api/community/bots.ts'
import { createKey } from '../../api/keys.ts'
import { createCreatorBot, publishBot, retireBot, updateCreatorBot } from '../../api/marketplace/creator.ts'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { updateBot } from '../../db/marketplace/listings.ts'
import { renewSubscriptions } from '../../db/marketplace/renewals.ts'
import { holdParty } from '../../db/partners/party.ts'
import { insertTraderSession } from '../../db/partners/sessions.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { bounds } from '../../db/platform/bounds.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { call, closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { draft, earn, fund, makeBot, makeDraft } from '../support/marketplace-makers.ts'
import { makeTestSide } from '../support/test-side.ts'

const harness = await openHarness()
const { db, config, vault, pepper } = harness.services
const of = (id: string) => ({ params: { id } })

/** A trader of the partner with the headers of its session. */
async function makeActor(partner: TestPartner) {
  const { traderId } = await partner.makeTrader()
  const { token } = await insertTraderSession(db, pepper, { partnerId: partner.partnerId, traderId, ttlHours: 1 })
  return { traderId, as: { headers: { 'x-trader-session': token } } }
}

const races = suite('changes at the same time')

races('store nothing for a trader who is being erased', async () => {
  const [creator, partner] = [await harness.makePartner(), await harness.makePartner()]
  await fund(harness, partner, '50')
  const botId = await makeBot(creator, { monthlyPriceUsd: 5, oneTimePriceUsd: 5 })
  const { traderId, as } = await makeActor(partner)
  const draftId = await makeDraft(partner, { monthlyPriceUsd: 5 }, as.headers)
  const { body: shared } = await partner.call(createCommunityBot, { body: { name: 'Shared' } })
  const calls = await db.transaction(async trx => {
    await eraseTrader(trx, vault, traderId)
    return Promise.all([
      partner.call(purchaseBot, { ...of(botId), ...as }),
      partner.call(createCreatorBot, { ...as, body: draft }),
      partner.call(updateCreatorBot, { ...of(draftId), ...as, body: { code: 'of nobody' } }),
      partner.call(subscribeToBot, { ...of(botId), ...as }),
      partner.call(publishBot, { ...of(draftId), ...as }),
      partner.call(likeCommunityBot, { ...of(shared.botId), ...as })
    ])
  })
  assert.equal(
    calls.map(({ status }) => status),
    [503, 503, 503, 503, 503, 503]
  )
  // One whose session was looked up before.
  const { partnerId } = partner
  const held = holdParty(db, { partnerId, partyId: traderId })
  assert.is(await held.catch((error: ApiError) => error.code), 'UNAUTHENTICATED')
  assert.equal(await db('marketplace_subscriptions').where({ party_id: traderId }), [])
  assert.equal(await db('marketplace_purchases').where({ party_id: traderId }), [])
  assert.is((await db('marketplace_bots').where({ party_id: traderId })).length, 1)
  assert.is((await db('marketplace_bots').where({ id: draftId }).first()).status, 'DRAFT')
  assert.is((await db('community_bots').where({ id: shared.botId }).first()).likes, 0)
})

races('let a key of a test side be made while a subscription of that side is renewed', async () => {
  const [buyer, seller] = [await harness.makePartner(), await harness.makePartner()]
  const [side, creator] = [await makeTestSide(harness, buyer), await makeTestSide(harness, seller)]
  const botId = await makeBot(creator, { monthlyPriceUsd: 5 })
  const { body } = await side.call(subscribeToBot, of(botId))
  const { cookie } = await buyer.makeSession()
  // The renewal has locked its buyer, and waits for the bot.
  const holding = await db.transaction()
  await holding('marketplace_bots').where({ id: botId }).forNoKeyUpdate().first('id')
  const failures: unknown[] = []
  const counts = { charged: 0, activated: 0, deactivated: 0, renewed: 0 }
  const renewing = renewSubscriptions(db, {
    now: new Date(body.currentPeriodEnd),
    feePct: config.marketplaceFeePct,
    signal: new AbortController().signal,
    counts,
    failed: (_, error) => failures.push(error)
  })
  await untilLockWaits(db, { count: 1, work: renewing })
  const creating = call(harness.address, createKey, { body: { test: true }, headers: { cookie } })
  await untilLockWaits(db, { count: 2, work: creating })
  await holding.commit()
  await renewing
  const { status } = await creating
  assert.equal([status, failures, counts.renewed], [200, [], 1])
})

races(
  'lock subscriptions in one order: a bot may be retired while the suspension of its subscribers ends',
  async () => {
    const [creator, partner] = [await harness.makePartner(), await harness.makePartner()]
    const botId = await makeBot(creator, { monthlyPriceUsd: 0 })
    const { as } = await makeActor(partner)
    // The one with the lower id comes last by its party, and by its place once its period was changed.
    const { body: lower } = await partner.call(subscribeToBot, { ...of(botId), ...as })
    const { body: higher } = await partner.call(subscribeToBot, of(botId))
    await db.raw(
      `update marketplace_subscriptions set current_period_end = current_period_end + interval '1 s' where id = ?`,
      [lower.subscriptionId]
    )
    await db.transaction(trx => suspendPartner(trx, partner.partnerId, 'unpaid invoice'))
    const holding = await db.transaction()
    await holding('marketplace_subscriptions').where({ id: lower.subscriptionId }).forUpdate().first('id')
    const isFree = async () =>
      (await db('marketplace_subscriptions')
        .where({ id: higher.subscriptionId })
        .forUpdate()
        .skipLocked()
        .first('id')) !== undefined
    const retiring = creator.call(retireBot, of(botId))
    await untilLockWaits(db, { count: 1, work: retiring })
    const afterRetiring = await isFree()
    const resuming = db.transaction(trx => resumePartner(trx, partner.partnerId))
    await untilLockWaits(db, { count: 2, work: resuming })
    const afterBoth = await isFree()
    await holding.commit()
    assert.equal([afterRetiring, afterBoth], [true, true])
    assert.equal([(await retiring).body.status, (await resuming).saasStatus], ['RETIRED', 'ACTIVE'])
  }
)

races('hold a creator to the bound of its bots', async () => {
  const partner = await harness.makePartner()
  const first = await makeDraft(partner)
  await db.raw(
    `insert into marketplace_bots (id, partner_id, party_id, name, description, category, risk_level, strategy_type, supported_assets, screenshots,
            version, code)
     select 'bot_' || n, partner_id, party_id, name, description, category, risk_level, strategy_type, supported_assets, screenshots, version, code
       from marketplace_bots, generate_series(1, 998) n where id = ?`,
    [first]
  )
  // Two that have come this far before either of them is stored.
  const holding = await db.transaction()
  await holding('partners').where({ id: partner.partnerId }).forUpdate().first('id')
  const calls = Promise.all([1, 2].map(() => partner.call(createCreatorBot, { body: draft })))
  await untilLockWaits(db, { count: 2, work: calls }).finally(() => holding.commit())
  assert.equal((await calls).map(({ body }) => body.error).sort(), ['LIMIT_REACHED', undefined])
})

races('hold a creator to the bound of the bytes of its code, when that is changed', async () => {
  const partner = await harness.makePartner()
  const drafts = [await makeDraft(partner), await makeDraft(partner)]
  const bound = bounds.creatorBots as { bytes: number }
  const { bytes } = bound
  bound.bytes = 10_000
  const { partnerId } = partner
  const facts = { code: 'x'.repeat(6000) }
  const first = await db.transaction()
  await updateBot(first, drafts[0] as string, { partnerId, partyId: partnerId }, facts)
  const second = partner.call(updateCreatorBot, { ...of(drafts[1] as string), body: facts })
  await untilLockWaits(db, { work: second }).finally(() => first.commit())
  assert.is((await second).body.error, 'LIMIT_REACHED')
  bound.bytes = bytes
})

races('hold a creator to the bound of its undecided payouts', async () => {
  const partner = await harness.makePartner()
  const { partnerId } = partner
  await earn(harness, partner, '10')
  await db.raw(
    `insert into payouts (id, partner_id, party_id, amount, destination_address)
     select 'pay_' || n, :partnerId, :partnerId, 1, repeat('T', 34) from generate_series(1, :undecided::int) n`,
    { partnerId, undecided: bounds.payouts.records - 1 }
  )
  const holding = await db.transaction()
  await holding('ledger_accounts')
    .where({ id: `earnings:${partnerId}` })
    .forUpdate()
    .first('id')
  const body = { amountUsd: 1, destinationAddress: 'T'.repeat(34) }
  const calls = Promise.all([1, 2].map(() => partner.call(requestPayout, { body })))
  await untilLockWaits(db, { count: 2, work: calls }).finally(() => holding.commit())
  assert.equal((await calls).map(({ body }) => body.error).sort(), ['LIMIT_REACHED', undefined])
})

races('hold a party to the bound of its subscriptions', async () => {
  const [partner, seller] = [await harness.makePartner(), await harness.makePartner()]
  const { partnerId } = partner
  const { traderId, as } = await makeActor(partner)
  const bots = [await makeBot(seller, { monthlyPriceUsd: 0 }), await makeBot(seller, { monthlyPriceUsd: 0 })]
  for (const { partyId, table, headers } of [
    { partyId: partnerId, table: 'partners', headers: {} },
    { partyId: traderId, table: 'traders', headers: as.headers }
  ]) {
    await db.raw(
      `insert into marketplace_subscriptions (id, bot_id, partner_id, party_id, price, status, canceled_at, current_period_end)
       select 'sub_' || :partyId::text || n, :botId, :partnerId, :partyId, 0, 'CANCELED', now(), now() from generate_series(1, :made::int) n`,
      { partnerId, partyId, botId: bots[0], made: bounds.subscriptions.records - 1 }
    )
    const holding = await db.transaction()
    await holding(table).where({ id: partyId }).forNoKeyUpdate().first('id')
    const calls = Promise.all(bots.map(id => partner.call(subscribeToBot, { ...of(id as string), headers })))
    await untilLockWaits(db, { count: 2, work: calls }).finally(() => holding.commit())
    assert.equal((await calls).map(({ body }) => body.error).sort(), ['LIMIT_REACHED', undefined])
  }
})

races('hold a partner to the bound of the keys that it ever made', async () => {
  const { partnerId, makeSession } = await harness.makePartner()
  const { cookie } = await makeSession()
  await db.raw(
    `insert into api_keys (id, partner_id, lookup, hash, scopes, revoked_at)
     select 'key_' || n, :partnerId, lpad(to_hex(n), 16, '0'), decode(repeat('00', 32), 'hex'), '{}', now() from generate_series(1, :made::int) n`,
    { partnerId, made: bounds.keys.records - 2 }
  )
  const holding = await db.transaction()
  await holding('partners').where({ id: partnerId }).forUpdate().first('id')
  const calls = Promise.all([1, 2].map(() => call(harness.address, createKey, { body: {}, headers: { cookie } })))
  await untilLockWaits(db, { count: 2, work: calls }).finally(() => holding.commit())
  assert.equal((await calls).map(({ body }) => body.error).sort(), ['LIMIT_REACHED', undefined])
})

races.after(closeAll)
races.run()

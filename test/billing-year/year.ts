// A year of billing, day by day: partners that top up too little or too late, are suspended and resumed, change plans,
// subscribe and cancel, bots that are retired. The service's own functions run on a virtual clock; everything is
// drawn from the seed.

import { publishBot, retireBot } from '../../db/marketplace/listings.ts'
import { cancelSubscription, subscribeToBot } from '../../db/marketplace/sales.ts'
import type { Prices } from '../../db/money/billing.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { topUp } from '../../db/money/wallets.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { setPlan } from '../../db/partners/plans.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { plans } from '../../schemas/partners.ts'
import { type Random, seeded } from '../money-storm/random.ts'
import { putOnSale } from '../support/marketplace-makers.ts'

interface YearOptions {
  partners: number
  days: number
  seed: number
}

/** A time in which something held; open when it has no end yet. */
export interface YearSpan {
  from: Date
  to: Date | null
}

/** What the year knows of a partner besides the books. */
export interface Life {
  partnerId: string
  /** Suspended, or the plan unpaid. */
  lockedOut: YearSpan[]
  /** Suspensions that began while the plan was paid: they make what is paid longer. */
  suspended: YearSpan[]
}

export interface Year {
  lives: Life[]
  /** Bot → the times in which it was retired. */
  retired: Map<string, YearSpan[]>
  counts: Record<string, number>
}

const START = Date.UTC(2027, 0, 1)
const DAY = 86_400_000
export const prices: Prices = { LAUNCH: '49', PRO: '199', SCALE: '799' }
const feePct = '20'

/** Lives through the year. Refusals that a customer would meet are part of it; anything else is thrown. */
export async function liveYear(db: Db, { partners, days, seed }: YearOptions): Promise<Year> {
  const random = seeded(seed)
  const counts: Record<string, number> = {}
  const lives = await makePartners(db, partners, random)
  const bots = await makeBots(db, lives.slice(0, Math.max(6, partners / 50)), random)
  const retired = new Map<string, YearSpan[]>(bots.map(({ botId }) => [botId, []]))
  const act = async (name: string, work: () => Promise<unknown>) => {
    try {
      await work()
      counts[name] = (counts[name] ?? 0) + 1
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      counts[`${name}: ${error.code}`] = (counts[`${name}: ${error.code}`] ?? 0) + 1
    }
  }
  for (let day = 0; day < days; day++) {
    // At the start of the day: what partners do later that day comes after it, by their clocks too.
    for (const bot of bots)
      if (random.below(100) === 0)
        await act('retire or publish', () => turn(db, bot, retired, new Date(START + day * DAY)))
    const standings = await standingsOf(db)
    for (const life of lives) {
      const now = at(day, random)
      const { suspended, active } = standings.get(life.partnerId) as Standing
      for (const [name, step] of draw(random, { life, suspended, active, bots }))
        await act(name, () => db.transaction(trx => step(trx, now)))
    }
    const now = new Date(START + (day + 1) * DAY)
    await checkBilling(db, { now, prices, feePct })
    counts.checks = (counts.checks ?? 0) + 1
    await noteStandings(db, lives, now)
  }
  return { lives, retired, counts }
}

interface Standing {
  suspended: boolean
  active: boolean
  activeSince: Date | null
}

interface Bot {
  botId: string
  partnerId: string
}

type YearStep = (trx: Db, now: Date) => Promise<unknown>

/** What a partner does, or is done to it, on a day. */
function draw(
  random: Random,
  { life, suspended, active, bots }: { life: Life; suspended: boolean; active: boolean; bots: Bot[] }
): [string, YearStep][] {
  const { partnerId } = life
  const often = (one: number) => random.below(one) === 0
  const steps: [string, YearStep][] = []
  if (often(25)) {
    const amountUsd = random.amount(600)
    steps.push(['top up', (trx, now) => topUp(trx, { partnerId, amountUsd, prices, now })])
  }
  if (often(30)) {
    const plan = random.pick(plans)
    steps.push(['set plan', (trx, now) => setPlan(trx, { partnerId, plan, prices, now })])
  }
  if (suspended) {
    if (often(12)) steps.push(['resume', (trx, now) => resume(trx, life, now)])
    return steps
  }
  if (often(120)) {
    steps.push(['suspend', (trx, now) => suspend(trx, life, now)])
    return steps
  }
  // Who is locked out can neither subscribe nor cancel.
  if (!active) return steps
  if (often(40)) {
    const { botId } = random.pick(bots)
    const party = { partnerId, partyId: partnerId, test: false }
    steps.push(['subscribe', (trx, now) => subscribeToBot(trx, party, { botId, feePct, now })])
  }
  if (often(150)) steps.push(['cancel', trx => cancelOne(trx, partnerId)])
  return steps
}

async function suspend(trx: Db, { partnerId, lockedOut, suspended }: Life, drawnAt: Date): Promise<void> {
  // What was paid at the same instant was paid before.
  const now = new Date(drawnAt.getTime() + 1)
  const { active, activeSince } = (await standingsOf(trx)).get(partnerId) as Standing
  await suspendPartner(trx, partnerId, 'drawn by lot', now)
  const last = lockedOut.at(-1)
  if (active && last && last.to === null) last.to = activeSince ?? drawnAt
  if (lockedOut.at(-1)?.to !== null) lockedOut.push({ from: now, to: null })
  if (active) suspended.push({ from: now, to: null })
}

async function resume(trx: Db, { partnerId, suspended }: Life, now: Date): Promise<void> {
  await resumePartner(trx, partnerId, now)
  const last = suspended.at(-1)
  if (last && last.to === null) last.to = now
}

async function cancelOne(trx: Db, partnerId: string): Promise<void> {
  const [own] = await rows<{ id: string }>(
    trx,
    `select id from marketplace_subscriptions where partner_id = :partnerId and status = 'ACTIVE' order by id limit 1`,
    { partnerId }
  )
  if (own) await cancelSubscription(trx, own.id, partnerId)
}

async function turn(db: Db, { botId, partnerId }: Bot, retired: Map<string, YearSpan[]>, now: Date): Promise<void> {
  const spans = retired.get(botId) as YearSpan[]
  const last = spans.at(-1)
  if (last && last.to === null) {
    await db.transaction(trx => publishBot(trx, botId, { partnerId, partyId: partnerId }))
    last.to = now
  } else {
    await db.transaction(trx => retireBot(trx, botId, partnerId))
    spans.push({ from: now, to: null })
  }
}

/** Notes who was locked out by the check, and since when who was not is in again. */
async function noteStandings(db: Db, lives: Life[], now: Date): Promise<void> {
  const standings = await standingsOf(db)
  for (const { partnerId, lockedOut } of lives) {
    const { suspended, active, activeSince } = standings.get(partnerId) as Standing
    const last = lockedOut.at(-1)
    const open = last !== undefined && last.to === null
    if (!active && !open) lockedOut.push({ from: now, to: null })
    if (active && !suspended && open) last.to = activeSince ?? now
  }
}

async function standingsOf(db: Db): Promise<Map<string, Standing>> {
  const found = await rows<{ id: string } & Standing>(
    db,
    `select id, suspended_at is not null as suspended, plan_active as active, active_since as "activeSince" from partners`
  )
  return new Map(found.map(({ id, ...standing }) => [id, standing]))
}

async function makePartners(db: Db, count: number, random: Random): Promise<Life[]> {
  const lives: Life[] = []
  for (let i = 0; i < count; i++) {
    const facts = { name: `Partner ${i}`, plan: random.pick(plans), brokerAppId: '1', brokerDialect: 'v3' }
    const { partnerId } = await insertPartner(db, facts)
    const began = new Date(START)
    const ends = new Date(START + random.below(30) * DAY + random.below(DAY))
    await db('partners')
      .where({ id: partnerId })
      .update({ created_at: new Date(START - 1), period_start: began, period_end: ends, billing_anchor: ends })
    const amountUsd = random.amount(900)
    await db.transaction(trx => topUp(trx, { partnerId, amountUsd, prices, now: began }))
    lives.push({ partnerId, lockedOut: [], suspended: [] })
  }
  return lives
}

async function makeBots(db: Db, creators: Life[], random: Random): Promise<Bot[]> {
  const bots: Bot[] = []
  for (const { partnerId } of creators) {
    const botId = await putOnSale(db, { partnerId, partyId: partnerId }, { monthlyPriceUsd: random.amount(40) })
    bots.push({ botId, partnerId })
  }
  return bots
}

function at(day: number, random: Random): Date {
  return new Date(START + day * DAY + random.below(DAY - 1000))
}

// What creators earned. The money is on the partner's earnings account; a partner sees all of it, one of its
// traders the part that its own bots brought and its own payouts took.
import type { Party } from '../partners/party.ts'
import { type Db, rows } from '../postgres/connection.ts'

interface Earnings {
  /** May be below zero, after refunds of what was paid out already. */
  availableUsd: string
  heldUsd: string
  /** Always the other three together. */
  lifetimeUsd: string
  paidOutUsd: string
}

/** A party's earnings, in one read: the partner's from its accounts, a trader's from its bots and payouts. */
export async function getEarnings(db: Db, { partnerId, partyId }: Party): Promise<Earnings> {
  const paidOut = `(select coalesce(sum(amount), 0) from payouts where ${whose(partnerId, partyId)} and status = 'PAID')`
  const ofPartner = `select coalesce((select balance from ledger_accounts where id = 'earnings:' || :party), 0) as available,
                            coalesce((select balance from ledger_accounts where id = 'held:' || :party), 0) as held,
                            ${paidOut} as paid_out`
  const ofTrader = `select earned.net - held.amount - ${paidOut} as available, held.amount as held, ${paidOut} as paid_out
      from (select coalesce(sum(net), 0) as net from marketplace_bots where party_id = :party) as earned,
           (select coalesce(sum(amount), 0) as amount from payouts
             where party_id = :party and status in ('REQUESTED', 'APPROVED')) as held`
  const [row] = (await rows<Earnings>(
    db,
    `select round(available, 2)::text as "availableUsd", round(held, 2)::text as "heldUsd",
            round(available + held + paid_out, 2)::text as "lifetimeUsd", round(paid_out, 2)::text as "paidOutUsd"
       from (${partyId === partnerId ? ofPartner : ofTrader}) as earnings`,
    { party: partyId }
  )) as [Earnings]
  return row
}

interface BotEarnings {
  botId: string
  name: string
  sales: number
  subscribers: number
  grossUsd: string
  netUsd: string
}

/** A party's earnings and its bots, at most `limit`, as of one moment: a sale is in both or in neither. */
export async function readEarnings(
  db: Db,
  party: Party,
  limit: number
): Promise<{ earnings: Earnings; bots: BotEarnings[] }> {
  return db.transaction(
    async trx => ({ earnings: await getEarnings(trx, party), bots: await listBotEarnings(trx, party, limit) }),
    { isolationLevel: 'repeatable read', readOnly: true }
  )
}

/** Each bot of the party that was ever published, newest first, at most `limit`; a partner's traders' bots are its own here. */
async function listBotEarnings(db: Db, { partnerId, partyId }: Party, limit: number): Promise<BotEarnings[]> {
  return rows<BotEarnings>(
    db,
    `select id as "botId", name, sales, subscribers, gross as "grossUsd", net as "netUsd"
       from marketplace_bots
      where ${whose(partnerId, partyId)} and status <> 'DRAFT'
      order by created_at desc, id desc limit :limit`,
    { party: partyId, limit }
  )
}

function whose(partnerId: string, partyId: string): string {
  return partyId === partnerId ? 'partner_id = :party' : 'party_id = :party'
}

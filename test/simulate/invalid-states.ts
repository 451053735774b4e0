// States of contracts that cannot be read, or are not believed: each field missing, null, of another type, out of range.
import type { Deal } from './books.ts'
import type { BrokerWorld } from './connection.ts'

type SpoiledBody = Record<string, unknown>

// What a settlement, or a sale, depends on becomes right in the end; of the rest the broker may send nonsense for ever.
const needed = new Set(['contract_id', 'is_sold', 'status', 'sell_price', 'buy_price', 'profit', 'is_valid_to_sell'])

const nonsense: ((value: unknown) => unknown)[] = [
  () => undefined,
  () => null,
  value => (typeof value === 'number' ? String(value) : 7),
  () => ({}),
  () => '1,219.63',
  () => 1.5,
  () => -5,
  () => 1e30,
  () => 'nonsense'
]
// A payout that can be read ('1,219.63' can) and differs is a contradiction that nobody may book: its order never settles.
const unreadable = [0, 1, 3, 8]

/** The state, or what a broker out of its mind makes of it. */
export function spoiled(world: BrokerWorld, deal: Deal, body: SpoiledBody): SpoiledBody {
  const { chance, counts, faults } = world
  const { spoil } = faults()
  if (spoil === 0 && !deal.odd) return body
  const spoiledBody = { ...body }
  // Some contracts have a field for good that nobody can read.
  if (chance.is(spoil) && !deal.odd) {
    const field = optionalOf(world, body)
    deal.odd = { field, which: field === 'payout' ? chance.of(unreadable) : chance.int(0, nonsense.length - 1) }
  }
  if (deal.odd) spoiledBody[deal.odd.field] = nonsense[deal.odd.which]!(body[deal.odd.field])
  if (chance.is(spoil)) {
    const field = chance.of([...needed].filter(name => name in body))
    counts.add(`state: ${field} is odd`)
    spoiledBody[field] = chance.of(nonsense)(body[field])
  }
  return spoiledBody
}

function optionalOf({ chance, counts }: BrokerWorld, body: SpoiledBody): string {
  const field = chance.of(Object.keys(body).filter(name => !needed.has(name)))
  counts.add('state: a field that is not needed is odd for good')
  return field
}

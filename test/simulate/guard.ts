// What a guard of an order's life or of the event log is, and how it is taken out: edits of the source, statements on the
// simulation's database, or both where one guard backs another and either alone would do.
import type { DialectName } from '../support/dialects.ts'
import type { FaultRates, SimulationMode } from './chance.ts'

export interface Edit {
  file: string
  /** Is in the file exactly once. */
  from: string
  to: string
}

/** The source without a guard. Throws unless its text is there exactly once. */
export function edited(source: string, { file, from, to }: Edit): string {
  const parts = source.split(from)
  if (parts.length !== 2) throw new Error(`${file} has the text of this guard ${parts.length - 1} times: ${from}`)
  return parts.join(to)
}

interface Gap {
  name: string
  edits?: Edit[]
  sql?: string[]
}

/** One that simulations miss when it is gone. */
export interface SimulatedGuard extends Gap {
  /** Only there it guards; by default the first. */
  dialect?: DialectName
  /** What the simulation that misses the guard concentrates on. */
  mode: SimulationMode
  buys?: Partial<FaultRates['buys']>
  /** Lives of one simulation. */
  lives: number
  /** Found so fast that every run of the tests looks for it. */
  quick?: true
}

/** One that a test misses: where statements race, which in simulations follow one another. */
export interface TestedGuard extends Gap {
  test: string
}

export type Guard = SimulatedGuard | TestedGuard

export const edit = (file: string, from: string, to: string): Edit => ({ file, from, to })

/** Where the guards are. */
export const files = {
  placing: 'worker/orders/placing.ts',
  sending: 'worker/orders/sending.ts',
  responses: 'worker/orders/responses.ts',
  releases: 'worker/orders/releases.ts',
  passedOver: 'worker/orders/passed-over.ts',
  claiming: 'db/orders/claiming.ts',
  rows: 'db/orders/placing.ts',
  reading: 'db/orders/reading.ts',
  resolving: 'db/orders/resolving.ts',
  deciding: 'worker/orders/resolving.ts',
  evidence: 'worker/orders/evidence.ts',
  storing: 'db/orders/storing.ts',
  leases: 'db/orders/leases.ts',
  lineage: 'db/postgres/lineage.ts',
  closing: 'worker/orders/closing.ts',
  copyClosing: 'db/copy/closing.ts',
  contractLeases: 'worker/orders/contract-leases.ts',
  archiving: 'db/orders/archiving.ts',
  listing: 'db/orders/listing.ts',
  archive: 'db/migrations/0076_orders_archive.ts',
  archivedNames: 'db/migrations/0083_cheaper_triggers.ts'
} as const

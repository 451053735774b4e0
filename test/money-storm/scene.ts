// What the storm's processes know, and what an operation is.
import type { Party } from '../../db/partners/party.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Random } from './random.ts'

/** A bot on sale and whose it is. */
export interface StormBot {
  botId: string
  creator: Party
}

/** What every process of the storm knows. */
export interface MoneyScene {
  partners: string[]
  bots: StormBot[]
  /** The storm's clock in this round: fees fall due by it. */
  now: Date
  prices: { LAUNCH: string; PRO: string; SCALE: string }
  feePct: string
  /** Top-ups are drawn from this many references, so that processes repeat each other's. */
  topUps: { round: number; references: number }
}

/** Whether the operation moved the money itself, and under which references it lies now. */
export interface Done {
  made: string[]
  repeated?: string[]
}

export interface StormOperation {
  name: string
  /** How often, compared with the others. */
  weight: number
  run(db: Db, random: Random, scene: MoneyScene): Promise<Done>
}

// The update of 0157 once more, for tokens of which older workers have left out the next renewal since. From 0159 on none is left out.
import type { Knex } from 'knex'
import { up as resume } from './0157_renewals_resumed.ts'

export const config = { transaction: false }

export async function up(db: Knex): Promise<void> {
  await resume(db)
}

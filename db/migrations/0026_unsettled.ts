// Findings about orders that are open here although their contract has ended: UNSETTLED, the broker's books show it
// closed, or nobody can read it any more; IMPLAUSIBLE, what the broker reports about the end contradicts itself.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table contract_findings drop constraint contract_findings_kind_check;
    alter table contract_findings add constraint contract_findings_kind_check
      check (kind in ('ORPHAN', 'MISMATCH', 'UNSETTLED', 'IMPLAUSIBLE'));
  `)
}

// Statistics that keep up with a table that grows, made as the tables' owner: PostgreSQL only warns when another role, as that of the
// processes is, analyses a table, and leaves it as it was.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    -- Analyses these columns of a table, or all where none is given. One that is being analysed is left to that.
    create function analyse_table(name text, columns text[]) returns void language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      listed text;
    begin
      select ' (' || string_agg(format('%I', c), ', ') || ')' into listed from unnest(columns) c;
      execute format('analyze (skip_locked) %s%s', name::regclass, listed);
    end $$`)
}

// operator db: the schema of the database, which only ever goes forward.
import type { Command } from 'commander'
import { recordAudit } from '../../db/platform/audit.ts'
import { locateDatabase } from '../../db/platform/store.ts'
import { type Db, lacksPrivilege, openDatabase } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { migrationStatus } from '../../db/postgres/migrations.ts'
import { reachDatabase } from '../../db/postgres/reach.ts'
import { findOwnerToGrant, grantService, roleExists } from '../../db/postgres/roles.ts'
import { RoleRef } from '../../schemas/commands/operator.ts'
import { type Context, withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export function addDatabase(program: Command): void {
  const db = program.command('db').description('The database: migrate it, grant roles, list migrations')

  db.command('migrate')
    .description('Bring the database to the newest schema; safe to repeat and to run twice at once')
    .addHelpText('after', examples('db migrate'))
    .action(
      withoutStore(
        context =>
          withDatabase(context, async (db, url) => {
            const applied = await migrate(url, context.note).catch(explainRights)
            if (applied.length > 0) {
              const details = { applied }
              await recordAudit(db, { actor: context.actor, action: 'db.migrate', details })
            }
            return { applied }
          }),
        {
          acts: true,
          show: ({ applied }) =>
            applied.length > 0 ? applied.map(name => `applied ${name}`).join('\n') : 'Nothing to do: up to date.'
        }
      )
    )

  db.command('grant <role>')
    .description('Grant a role what api, worker and this tool need, and no more; run as the owner of the tables')
    .addHelpText(
      'after',
      `
  1. as a superuser: create role trading_service login password '…'
  2. DATABASE_URL of the owner:   operator db migrate, then operator db grant trading_service
  3. DATABASE_URL of that role:   api, worker, operator
${examples('db grant trading_service')}`
    )
    .action(
      withoutStore(
        (context, { role }: RoleRef) =>
          withDatabase(context, async db => {
            if (!(await roleExists(db, role))) throw new CommandRefusal(`There is no role ${role}: create it first.`)
            await db.transaction(async trx => {
              await grantService(trx, role)
              const owner = await findOwnerToGrant(trx, role)
              if (owner !== undefined)
                throw new CommandRefusal(
                  `Nothing was granted: the tables belong to ${owner}. Run this as ${owner}, by DATABASE_URL.`
                )
              await recordAudit(trx, { actor: context.actor, action: 'db.grant', target: role })
            })
            return { granted: role }
          }),
        { input: RoleRef, acts: true }
      )
    )

  db.command('rollback')
    .description('Not offered: prints how to go back to the previous version')
    .action(
      withoutStore(async () => {
        throw new CommandRefusal(
          'Migrations go forward only. To go back, start the previous version again on the database as it is: it works on the newer schema. Restoring the backup undoes all orders and payments since; that is for a damaged database.'
        )
      })
    )

  db.command('status')
    .description('List the migrations applied, missing, and of a newer version')
    .addHelpText('after', examples('db status --json'))
    .action(
      withoutStore(context => withDatabase(context, db => migrationStatus(db)), {
        show: ({ applied, pending, newer }) =>
          [
            ...applied.map(name => `${newer.includes(name) ? 'newer  ' : 'applied'}  ${name}`),
            ...pending.map(name => `missing  ${name}`)
          ].join('\n')
      })
    )
}

/** From version 15 on PostgreSQL lets nobody but its owner make tables in a database, unless it is granted. */
function explainRights(error: unknown): never {
  if (!lacksPrivilege(error)) throw error
  // knex puts the statement before the message.
  const reason = (error as Error).message.split(' - ').at(-1)
  throw new CommandRefusal(
    `The role in DATABASE_URL may not make the tables (${reason}): run this as the database's owner.`,
    {
      cause: error
    }
  )
}

/** The database as it is, migrated or not. */
async function withDatabase<Result>(
  { config, note }: Context,
  run: (db: Db, url: string) => Promise<Result>
): Promise<Result> {
  const { url, stop } = await locateDatabase(config, note)
  try {
    await reachDatabase(url)
    const db = openDatabase({ url, pool: 2, name: 'cli' })
    try {
      return await run(db, url)
    } finally {
      await db.destroy()
    }
  } finally {
    await stop()
  }
}

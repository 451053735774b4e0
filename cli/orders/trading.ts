// operator trading: halts and resumes placing for everybody, a partner, a broker application or an asset.
import type { Command } from 'commander'
import { countOfApplication, getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import {
  announceHalts,
  type Halt,
  type HaltedScope,
  haltTrading,
  listHalts,
  recentOrdersOn,
  resumeTrading
} from '../../db/platform/halts.ts'
import { Nothing } from '../../schemas/commands/operator.ts'
import { TradingHalt, TradingResume } from '../../schemas/commands/orders.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal, UsageError } from '../terminal/refusals.ts'
import { watchable } from '../terminal/watching.ts'
import { withWorkers } from './doubt.ts'

export function addTrading(program: Command): void {
  const trading = program.command('trading').description('Placing of orders: halt it, resume it, see what is halted')

  scoped(trading.command('halt'))
    .description(
      'Stop placing at once: orders are refused with 503 TRADING_HALTED, waiting ones fail with it, copies are skipped; open contracts continue and may be closed'
    )
    .requiredOption('--reason <text>', 'why; partners read it')
    .addHelpText(
      'after',
      examples(
        'trading halt --reason "the broker quotes wrong prices"',
        'trading halt --asset R_100 --reason "no ticks"',
        'trading halt --partner ptn_01jd… --reason "runaway bot" --yes'
      )
    )
    .action(withStore(halt, { input: TradingHalt, acts: true }))

  scoped(trading.command('resume'))
    .description('End the halt of exactly this scope; orders to which another halt applies stay refused')
    .option('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('trading resume', 'trading resume --asset R_100 --reason "ticks are back"'))
    .action(withStore(resume, { input: TradingResume, acts: true }))

  watchable(trading.command('status'))
    .description('List what is halted, by whom, since when and why')
    .addHelpText('after', examples('trading status', 'trading status --json'))
    .action(
      withStore(async ({ db }) => ({ data: await listHalts(db) }), {
        input: Nothing,
        show: ['scope', 'subject', 'reason', 'actor', 'haltedAt']
      })
    )
}

function scoped(command: Command): Command {
  return command
    .option('--partner <partnerId>', 'only of this partner')
    .option('--application <id>', 'only under this application at the broker')
    .option('--asset <symbol>', 'only on this asset')
}

interface Options {
  partner?: string
  application?: string
  asset?: string
}

function scopeOf({ partner, application, asset }: Options): HaltedScope {
  const named = Object.entries({ partner, application, asset }).filter(([, subject]) => subject !== undefined)
  const [first, ...others] = named as [HaltedScope['scope'], string][]
  if (others.length > 0)
    throw new UsageError('--partner, --application and --asset exclude each other: halt one, then the other')
  return first ? { scope: first[0], subject: first[1] } : { scope: 'all', subject: null }
}

async function halt(
  opened: Opened,
  { reason, ...options }: TradingHalt
): Promise<Halt & { warning?: string | undefined }> {
  const { db, actor, confirm } = opened
  const scope = scopeOf(options)
  await confirm(`Stop placing ${await inWords(opened, scope)}? Orders are refused until \`operator trading resume\`.`)
  const halted = await change(opened, async () =>
    db.transaction(async trx => {
      const halted = await haltTrading(trx, { ...scope, reason, actor })
      const details = { scope: scope.scope, reason }
      await recordAudit(trx, { actor, action: 'trading.halt', target: scope.subject ?? 'all', details })
      return halted
    })
  )
  const warning = scope.scope === 'asset' ? await unknownAsset(opened, scope.subject as string) : undefined
  return warning === undefined ? halted : { ...halted, warning }
}

/** What to check when nobody lately traded a halted asset: its name may be mistyped. Undefined when somebody did. */
async function unknownAsset({ db }: Opened, asset: string): Promise<string | undefined> {
  const { named, of, most } = await recentOrdersOn(db, asset)
  if (named > 0 || of === 0) return undefined
  return `none of the latest ${of} orders is on ${asset}; they are on ${most.join(', ')}`
}

async function resume(opened: Opened, { reason, ...options }: TradingResume): Promise<object> {
  const { db, actor } = opened
  const scope = scopeOf(options)
  const resumed = await change(opened, async () =>
    db.transaction(async trx => {
      const ended = await resumeTrading(trx, scope)
      const details = { scope: scope.scope, reason: reason ?? null, haltedFor: ended.reason, haltedAt: ended.haltedAt }
      await recordAudit(trx, { actor, action: 'trading.resume', target: scope.subject ?? 'all', details })
      return ended
    })
  )
  const { scope: name, subject, haltedAt } = resumed
  const stillHalted = (await listHalts(db)).map(each =>
    each.subject === null ? each.scope : `${each.scope} ${each.subject}`
  )
  return { resumed: subject === null ? name : `${name} ${subject}`, haltedAt, stillHalted }
}

/** Changes the halts and has the workers read them at once. */
async function change(opened: Opened, work: () => Promise<Halt>): Promise<Halt> {
  return withWorkers(opened, async ({ bus }) => {
    const changed = await work()
    announceHalts(bus)
    return changed
  })
}

async function inWords(opened: Opened, { scope, subject }: HaltedScope): Promise<string> {
  const { db } = opened
  switch (scope) {
    case 'all':
      return 'for EVERYBODY'
    case 'partner':
      return `for ${(await getPartner(db, subject as string)).name} (${subject})`
    case 'application': {
      const partners = await countOfApplication(db, subject as string)
      if (partners === 0) throw new CommandRefusal(`No partner has the application ${subject} at the broker.`)
      return `under the application ${subject}, which ${partners === 1 ? 'one partner has' : `${partners} partners have`}`
    }
    case 'asset': {
      const warning = await unknownAsset(opened, subject as string)
      return `on ${subject}, of all partners${warning ? ` (${warning})` : ''}`
    }
  }
}

// operator orders reconcile and audit: the evidence about an order in doubt, the operator's decision, and the
// comparison with the broker's books.
import type { Command } from 'commander'
import { adoptByHand, announce, type Candidate, declareAbsent, getDoubtful, hasId } from '../../db/orders/deciding.ts'
import { presentEntry } from '../../db/orders/entry.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import { listBreaks } from '../../db/orders/reconciliation.ts'
import { arrivalTimes } from '../../db/orders/resolving.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { requestFromWorkers } from '../../db/platform/broker-requests.ts'
import { type Bus, openBus } from '../../db/platform/bus.ts'
import { openLog } from '../../db/platform/log.ts'
import { getNamedOrder } from '../../db/platform/named.ts'
import { openQueue, type Queue } from '../../db/platform/queue.ts'
import { Nothing } from '../../schemas/commands/operator.ts'
import { ReconcileOrder } from '../../schemas/commands/orders.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { UsageError } from '../terminal/refusals.ts'

const EVIDENCE_TIMEOUT_MS = 20_000
const AUDIT_TIMEOUT_MS = 300_000

export function addOrdersInDoubt(orders: Command): void {
  orders
    .command('reconcile <order>')
    .description('Show what the broker has about an order in doubt, and decide it with --adopt or --absent')
    .option('--adopt <contractId>', 'this contract is the order’s')
    .option('--absent', 'the broker did not buy it: the order fails and may be repeated')
    .addHelpText(
      'after',
      examples(
        'orders reconcile ord_01jd…',
        'orders reconcile ord_01jd… --adopt 290769704688',
        'orders reconcile ord_01jd… --absent --yes'
      )
    )
    .action(
      withStore(reconcile, {
        input: ReconcileOrder,
        acts: true,
        lists: ({ adopt, absent }: ReconcileOrder) => adopt === undefined && !absent
      })
    )

  orders
    .command('audit')
    .description(
      "Compare accounts' recent contracts at the broker with our orders, and list what differs: of 200 accounts at most, those due longest first"
    )
    .addHelpText('after', examples('orders audit', 'orders audit --json'))
    .action(
      withStore(
        async opened => {
          const summary = await withWorkers(opened, tools =>
            requestFromWorkers<object>(opened.db, tools, {
              kind: 'audit',
              key: 'all',
              data: {},
              timeoutMs: AUDIT_TIMEOUT_MS
            })
          )
          return { ...summary, data: await listBreaks(opened.db, 1000) }
        },
        { input: Nothing, show: ['kind', 'accountId', 'contractId', 'orderId', 'partnerId', 'foundAt'] }
      )
    )
}

/** Shows the evidence about an order in doubt or, after confirmation, decides it. */
export async function reconcile(opened: Opened, { order: name, adopt, absent }: ReconcileOrder): Promise<object> {
  if (adopt && absent) throw new UsageError('--adopt and --absent exclude each other')
  const { db, config, actor, confirm, note } = opened
  const { id: orderId } = await getNamedOrder(db, name)
  const order = await getDoubtful(db, orderId, config.reconcileAfterMs)
  return withWorkers(opened, async ({ queue, bus }) => {
    note('Requesting evidence from the broker…')
    const { candidates, live } = await evidenceOf(opened, { queue, bus }, { order, contractId: adopt })
    if (!adopt && !absent) {
      const terms = {
        asset: order.asset,
        contractType: order.contract_type,
        stake: order.stake,
        stakeInAccount: order.stake_in_account,
        exchangeRate: order.exchange_rate,
        duration: order.duration,
        durationUnit: order.duration_unit,
        barrier: order.barrier
      }
      return {
        orderId,
        phase: order.phase,
        accountId: order.account_id,
        sentAt: order.sent_at,
        ...terms,
        live,
        data: candidates
      }
    }
    const found = candidates.find(({ contractId }) => contractId === adopt)
    if (found && !hasId(found))
      throw new ApiError(
        'CONFLICT',
        `The broker shows no id of the contract in ${found.contractId}; where you know it, name it with orders reconcile --adopt.`
      )
    if (adopt && !found)
      throw new ApiError('CONFLICT', `The broker shows no contract ${adopt} that could be this order's.`)
    const question = found
      ? `Make contract ${found.contractId} (${found.shortcode}, bought for ${found.buyPrice ?? 'a price that does not show'}) the contract of ${orderId}?`
      : `Declare that the broker did not buy ${orderId}${candidates.length > 0 ? `, although ${candidates.length} contracts could be it` : ''}?`
    await confirm(question)
    const decided = await db.transaction(async trx => {
      const row = found
        ? await adoptByHand(trx, queue, order, found)
        : await declareAbsent(trx, order, arrivalTimes(config))
      const details = {
        decision: found ? 'adopt' : 'absent',
        contractId: found?.contractId ?? null,
        live,
        candidates: candidates.map(({ contractId }) => contractId)
      }
      await recordAudit(trx, { actor, action: 'orders.reconcile', target: orderId, details })
      return row
    })
    announce(bus, decided)
    return presentEntry(decided)
  })
}

/**
 * The broker's current evidence, with the contract that is named although the lists may lack its id; the evidence stored with the review
 * when no worker or broker responds.
 */
async function evidenceOf(
  opened: Opened,
  tools: { queue: Queue; bus: Bus },
  { order, contractId }: { order: Pick<OrderRow, 'id' | 'evidence'>; contractId: string | undefined }
): Promise<{ candidates: Candidate[]; live: boolean }> {
  try {
    const data = { orderId: order.id, contractId }
    const key = `${order.id} ${contractId ?? ''}`
    const requested = { kind: 'evidence', key, data, timeoutMs: EVIDENCE_TIMEOUT_MS }
    const { candidates } = await requestFromWorkers<{ candidates: Candidate[] }>(opened.db, tools, requested)
    return { candidates, live: true }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    opened.note(`${error.message} This is what was stored with the review.`)
    return { candidates: Array.isArray(order.evidence) ? (order.evidence as Candidate[]) : [], live: false }
  }
}

/** Runs with a bus and a queue to reach the workers, and closes both. */
export async function withWorkers<Result>(
  opened: Opened,
  run: (tools: { queue: Queue; bus: Bus }) => Promise<Result>
): Promise<Result> {
  const log = openLog({ level: 'silent', name: 'cli' })
  const bus = await openBus({ url: opened.url, redisUrl: opened.config.redisUrl, log })
  const queue = await openQueue({ url: opened.url, role: 'sender', log })
  try {
    return await run({ queue, bus })
  } finally {
    await Promise.allSettled([queue.close(), bus.close()])
  }
}

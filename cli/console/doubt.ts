// 4 Doubt: orders sent without a response, and orders whose evidence fits two readings. The second kind waits for a
// person; the broker's evidence is read again before the decision.

import type { Candidate } from '../../db/orders/deciding.ts'
import { listDoubtLines, type OrderLine } from '../../db/platform/console.ts'
import { reconcile } from '../orders/doubt.ts'
import { contractOf, type OrderWithAudit, readOrderWithAudit, statusOf } from './order.ts'
import { age, type Column, clock, cut, instant, toneOf, tones } from './text.ts'
import { type KeyAction, listing, MARK, open, type View, type ViewPosition } from './view.ts'

const LISTED = 200

type DoubtData = { orders: OrderLine[] } | { openedOrder: OrderWithAudit }

const lineColumns: Column<OrderLine>[] = [
  { title: 'For', width: 10, of: order => age(order.ageSeconds), tone: () => tones.title },
  { title: 'State', width: 8, of: stateOf, tone: order => (order.phase === 'review' ? tones.bad : tones.warn) },
  { title: 'Asset', width: 9, of: order => order.asset },
  { title: 'Contract', width: 11, of: contractOf },
  { title: 'Stake', width: 8, right: true, of: order => order.stake },
  { title: 'Account', width: 14, from: 100, of: order => order.account_id },
  {
    title: 'Could be',
    width: 8,
    right: true,
    of: order => (order.phase === 'review' ? String(order.candidates) : '–')
  },
  { title: 'Trader', width: 2, grow: true, of: order => order.trader_external_id },
  { title: 'Partner', width: 16, grow: true, from: 110, of: order => order.partner },
  { title: 'Order', width: 30, from: 140, of: order => order.id }
]

const candidateColumns: Column<Candidate>[] = [
  { title: 'Contract', width: 14, of: candidate => candidate.contractId },
  { title: 'Bought (UTC)', width: 12, of: ({ purchaseTime: at }) => (at === null ? '–' : clock(new Date(at * 1000))) },
  { title: 'For', width: 8, right: true, of: candidate => candidate.buyPrice ?? '–' },
  { title: 'Payout', width: 8, right: true, of: candidate => candidate.payout ?? '–' },
  { title: 'App', width: 6, of: candidate => candidate.appId ?? '–' },
  { title: 'Shortcode', width: 10, grow: true, of: candidate => candidate.shortcode }
]

export const doubt: View<DoubtData> = {
  name: 'Doubt',

  async read(trx, { opened }) {
    if (opened) return { openedOrder: await readOrderWithAudit(trx, opened) }
    return { orders: await listDoubtLines(trx, LISTED) }
  },

  draw(data, { opened }, { columns }) {
    if ('openedOrder' in data) return drawEvidence(data.openedOrder, opened ?? '', columns)
    const { title, lines } = listing(lineColumns, data.orders, ({ id }) => id, columns - MARK)
    const about = 'sent: the workers look it up by themselves.  REVIEW: waits for your decision.'
    return { head: [tones.quiet(cut(about, columns)), `${' '.repeat(MARK)}${title}`], lines }
  },

  actions(data, place) {
    const { opened, chosen } = place
    if (!('openedOrder' in data)) {
      return chosen ? [{ key: 'enter', label: 'evidence', press: () => open(place, chosen) }] : []
    }
    return opened && isUndecided(data.openedOrder) ? deciding(opened, place) : []
  }
}

function stateOf(order: OrderLine): string {
  return order.phase === 'review' ? 'REVIEW' : 'sent'
}

function isUndecided({ order }: OrderWithAudit): boolean {
  return order?.phase === 'review' || order?.phase === 'sending'
}

function deciding(orderId: string, { chosen }: ViewPosition): KeyAction[] {
  const adopting: KeyAction[] = chosen
    ? [
        {
          key: 'a',
          label: 'adopt contract',
          press: () => ({
            run: async opened => {
              await reconcile(opened, { order: orderId, adopt: chosen })
              return `${orderId} has contract ${chosen}.`
            }
          })
        }
      ]
    : []
  return [
    ...adopting,
    {
      key: 'x',
      label: 'declare absent',
      press: () => ({
        run: async opened => {
          await reconcile(opened, { order: orderId, absent: true })
          return `${orderId} was not bought; it may be repeated.`
        }
      })
    }
  ]
}

function drawEvidence({ order }: OrderWithAudit, orderId: string, columns: number) {
  if (!order) return { head: [], lines: [{ text: cut(`There is no order ${orderId} any more.`, columns) }] }
  const candidates = Array.isArray(order.evidence) ? (order.evidence as Candidate[]) : []
  const { title, lines } = listing(candidateColumns, candidates, ({ contractId }) => contractId, columns - MARK)
  const status = statusOf(order)
  const terms = [
    `${order.kind} ${contractOf(order)} on ${order.asset}`,
    order.duration === null ? '' : `for ${order.duration} ${order.duration_unit}`,
    order.barrier === null ? '' : `barrier ${order.barrier}`,
    `stake ${order.stake} USD${order.stake_in_account === null ? '' : ` (${order.stake_in_account} ${order.currency})`}`
  ]
  const head = [
    tones.title(cut(order.id, columns)),
    cut(terms.filter(Boolean).join(', '), columns),
    cut(`Account ${order.account_id} ${order.account_mode}, application ${order.app_id}`, columns),
    cut(`Sent ${instant(order.sent_at)}, had to leave by ${instant(order.permit_until)}`, columns),
    (toneOf(status) ?? tones.title)(cut(`${status}${order.error_message ? `: ${order.error_message}` : ''}`, columns)),
    ''
  ]
  if (!isUndecided({ order, audit: [] })) {
    return { head: [...head, cut('Decided: nothing is left to do here.', columns)], lines: [] }
  }
  const command = `operator orders reconcile ${order.id}`
  return {
    head: [
      ...head,
      tones.quiet(cut(`Or: ${command}`, columns)),
      '',
      ...(candidates.length > 0
        ? [tones.title(cut('Contracts at the broker that could be it', columns)), `${' '.repeat(MARK)}${title}`]
        : [cut('No contract at the broker is known that could be it.', columns)])
    ],
    lines
  }
}

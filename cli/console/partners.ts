// 2 Partners: their names and states; an opened partner shows its traders and its orders.

import { listOrders } from '../../db/orders/listing.ts'
import {
  listPartnerLines,
  listTraderLines,
  type OrderLine,
  type PartnerLine,
  type TraderLine
} from '../../db/platform/console.ts'
import { check } from '../../schemas/checks/validator.ts'
import { SuspendPartner } from '../../schemas/partners.ts'
import { resume, suspend } from '../partners/partners.ts'
import { drawOrderHistory, type OrderWithAudit, orderColumns, readOrderWithAudit } from './order.ts'
import { type Column, clean, columns, cut, instant, toneOf, tones, usd, widthOf } from './text.ts'
import { type KeyAction, listing, MARK, open, searching, type View, type ViewLine } from './view.ts'

const LISTED = 200
const TRADERS = 50
const ORDERS = 50

type OpenedPartner = { partner: PartnerLine | undefined; traders: TraderLine[]; orders: OrderLine[] }
type PartnersData = { partners: PartnerLine[] } | OpenedPartner | { openedOrder: OrderWithAudit }

const counted = (traders: number) => (traders >= 1000 ? '1000+' : String(traders))

const partnerColumns: Column<PartnerLine>[] = [
  { title: 'Name', width: 10, grow: true, of: partner => partner.name },
  { title: 'Plan', width: 7, of: partner => partner.plan },
  { title: 'Status', width: 10, of: ({ saasStatus }) => saasStatus, tone: ({ saasStatus }) => toneOf(saasStatus) },
  { title: 'Traders', width: 7, right: true, of: partner => counted(partner.traders) },
  {
    title: 'Balance USD',
    width: 14,
    right: true,
    of: partner => usd(partner.balanceUsd),
    tone: partner => (partner.balanceUsd.startsWith('-') ? tones.bad : undefined)
  },
  { title: 'Since', width: 10, from: 100, of: partner => partner.createdAt.toISOString().slice(0, 10) },
  { title: 'Partner', width: 30, from: 110, of: partner => partner.partnerId }
]

const traderColumns: Column<TraderLine>[] = [
  { title: 'Trader', width: 20, grow: true, of: trader => trader.externalId },
  { title: 'Name', width: 16, of: trader => trader.name ?? '–' },
  { title: 'Account', width: 14, of: trader => trader.accountId ?? '–' },
  {
    title: 'Connected',
    width: 10,
    of: trader => trader.connectedAt?.toISOString().slice(0, 10) ?? 'never',
    tone: trader => (trader.connectedAt ? undefined : tones.quiet)
  },
  { title: 'Id', width: 30, from: 120, of: trader => trader.traderId }
]

export const partners: View<PartnersData> = {
  name: 'Partners',

  async read(trx, { opened, search }) {
    if (opened?.startsWith('ord_')) return { openedOrder: await readOrderWithAudit(trx, opened) }
    if (!opened) return { partners: await listPartnerLines(trx, { text: search, limit: LISTED }) }
    const [partner] = await listPartnerLines(trx, { partnerId: opened, limit: 1 })
    const traders = await listTraderLines(trx, { partnerId: opened, limit: TRADERS })
    const found = await listOrders(trx, { partnerId: opened, limit: ORDERS })
    const orders = found.orders.map(order => ({ ...order, partner: partner?.name ?? '', ageSeconds: 0, candidates: 0 }))
    return { partner, traders, orders }
  },

  draw(data, place, size) {
    const width = size.columns - MARK
    const title = (text: string) => ' '.repeat(MARK) + text
    if ('openedOrder' in data) return drawOrderHistory(data.openedOrder, place.opened ?? '', size)
    if ('partners' in data) {
      const list = listing(partnerColumns, data.partners, ({ partnerId }) => partnerId, width)
      const about = place.search ? `Partners with “${place.search}”` : 'Partners, newest first'
      return { head: [tones.quiet(cut(about, size.columns)), title(list.title)], lines: list.lines }
    }
    const { partner, traders, orders } = data
    if (!partner) return { head: [], lines: [{ text: cut(`There is no partner ${place.opened}.`, size.columns) }] }
    const traded = columns(traderColumns, traders, width)
    const ordered = listing(orderColumns, orders, ({ id }) => id, width)
    const inset = (text: string): ViewLine => ({ text: title(text) })
    // Orders are what is opened from here; traders give way to them on a small screen.
    const shown = traded.lines.slice(0, Math.max(3, Math.floor(size.rows / 4)))
    const more = traders.length - shown.length
    return {
      head: [
        ...titled(partner, size.columns),
        aboutPartner(partner, size.columns),
        '',
        tones.title(`Traders (${counted(partner.traders)})`),
        ...(traders.length > 0 ? [title(traded.title)] : [title('None.')]),
        ...shown.map(line => inset(line).text),
        ...(more > 0 ? [title(tones.quiet(`… ${more}${traders.length === TRADERS ? ' or more' : ''} others`))] : []),
        '',
        tones.title('Orders, newest first'),
        title(ordered.title)
      ],
      lines: ordered.lines
    }
  },

  actions(data, place) {
    if ('openedOrder' in data) return []
    const { chosen } = place
    const entering: KeyAction[] = chosen ? [{ key: 'enter', label: 'open', press: () => open(place, chosen) }] : []
    if (!('partners' in data)) return [...entering, ...standing(data.partner)]
    const partner = data.partners.find(({ partnerId }) => partnerId === chosen)
    return [...entering, searching(place), ...standing(partner)]
  }
}

/** Its name and its whole id, on two lines where one is too narrow. */
function titled({ name, partnerId }: PartnerLine, width: number): string[] {
  if (widthOf(`${clean(name)}  ${partnerId}`) > width) return [tones.title(cut(name, width)), tones.quiet(partnerId)]
  return [tones.title(cut(name, width)) + tones.quiet(`  ${partnerId}`)]
}

function aboutPartner(partner: PartnerLine, width: number): string {
  const { saasStatus, suspendedReason } = partner
  const why = suspendedReason ? ` (${suspendedReason})` : ''
  const rest = `  ${partner.plan}, ${usd(partner.balanceUsd)} USD, ${partner.brokerDialect}, since ${instant(partner.createdAt)}`
  const status = cut(`${saasStatus}${why}`, Math.floor(width / 2))
  return (toneOf(saasStatus) ?? tones.title)(status) + cut(rest, width - widthOf(status))
}

/** What can be done about a partner's standing. */
function standing(partner: PartnerLine | undefined): KeyAction[] {
  if (!partner) return []
  const { partnerId, name } = partner
  if (partner.saasStatus === 'SUSPENDED') {
    return [
      {
        key: 'u',
        label: 'resume',
        press: () => ({
          run: async opened => {
            await opened.confirm(`End the suspension of ${name} (${partnerId})?`)
            await resume(opened, { partnerId })
            return `${name} may call again.`
          }
        })
      }
    ]
  }
  return [
    {
      key: 's',
      label: 'suspend',
      press: () => ({
        input: {
          label: `Reason to suspend ${name}`,
          use: reason => ({
            run: async opened => {
              await suspend(opened, check<SuspendPartner>(SuspendPartner, { partnerId, reason }, ''))
              return `${name} is suspended.`
            }
          })
        }
      })
    }
  ]
}

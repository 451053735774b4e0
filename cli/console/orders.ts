// 3 Orders: of all partners, newest first, updated live; an opened order shows its history.
import { listOrderLines, MOST_SEARCHED, type OrderLine } from '../../db/platform/console.ts'
import { orderStatus } from '../../schemas/orders.ts'
import { drawOrderHistory, type OrderWithAudit, orderColumns, readOrderWithAudit } from './order.ts'
import { cut, tones } from './text.ts'
import { listing, MARK, next, open, searching, type View } from './view.ts'

const LISTED = 200
const filters = ['', ...orderStatus.enum, 'REVIEW']

type OrdersData = { orders: OrderLine[] } | { openedOrder: OrderWithAudit }

export const orders: View<OrdersData> = {
  name: 'Orders',

  async read(trx, { opened, filter, search }) {
    if (opened) return { openedOrder: await readOrderWithAudit(trx, opened) }
    return { orders: await listOrderLines(trx, { status: filter, text: search, limit: LISTED }) }
  },

  draw(data, place, size) {
    if ('openedOrder' in data) return drawOrderHistory(data.openedOrder, place.opened ?? '', size)
    const { title, lines } = listing(orderColumns, data.orders, ({ id }) => id, size.columns - MARK)
    return { head: [aboutFilter(place, size.columns), `${' '.repeat(MARK)}${title}`], lines }
  },

  actions(data, place) {
    if ('openedOrder' in data) return []
    const { chosen, filter } = place
    return [
      ...(chosen ? [{ key: 'enter', label: 'open', press: () => open(place, chosen) }] : []),
      {
        key: 'f',
        label: 'filter',
        press: () => ({ place: { filter: next(filters, filter), chosen: undefined } })
      },
      searching(place)
    ]
  }
}

function aboutFilter({ filter, search }: { filter: string; search: string }, width: number): string {
  const among = filter || search ? ` among the newest ${MOST_SEARCHED}` : `, the newest ${LISTED}`
  const text = `${filter || 'All'} orders${search ? ` with “${search}”` : ''}${among}`
  return tones.quiet(cut(text, width))
}

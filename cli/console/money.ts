// 6 Money: payouts by status, to be approved, paid and recorded, or declined; and the wallets, emptiest first.

import { listPayouts, type PayoutRecord } from '../../db/money/payouts.ts'
import {
  type LedgerSummary,
  listWalletLines,
  type PayoutTotal,
  readLedger,
  readPayoutTotals,
  type WalletLine
} from '../../db/platform/console.ts'
import { check } from '../../schemas/checks/validator.ts'
import { PayoutApproval, PayoutPayment, PayoutRejection } from '../../schemas/commands/money.ts'
import { payoutStatuses } from '../../schemas/marketplace/creator.ts'
import { approve, recordPaid, reject } from '../money/payouts.ts'
import type { Opened } from '../terminal/context.ts'
import { type Column, clock, columns, cut, toneOf, tones, usd } from './text.ts'
import { type KeyAction, listing, MARK, type View } from './view.ts'

const LISTED = 50
/** Payouts listed in each status in which nothing is left to do. */
const LISTED_ENDED = 20

interface MoneyData {
  payouts: PayoutRecord[]
  totals: PayoutTotal[]
  wallets: WalletLine[]
  ledger: LedgerSummary
}

const payoutColumns: Column<PayoutRecord>[] = [
  { title: 'Requested', width: 11, of: payout => clock(payout.requestedAt) },
  { title: 'Status', width: 9, of: ({ status }) => status, tone: ({ status }) => toneOf(status) },
  { title: 'USD', width: 12, right: true, of: payout => usd(payout.amountUsd) },
  {
    title: 'To',
    width: 34,
    of: payout => payout.destinationAddress,
    tone: payout => (payout.addressCheck === 'FAILED' ? tones.bad : undefined)
  },
  {
    title: 'Reference or reason',
    width: 8,
    grow: true,
    of: payout => payout.reference ?? payout.reason ?? (payout.addressCheck === 'FAILED' ? 'checksum' : '')
  },
  { title: 'Partner', width: 30, from: 120, of: payout => payout.partnerId },
  { title: 'Payout', width: 30, from: 150, of: payout => payout.payoutId }
]

const walletColumns: Column<WalletLine>[] = [
  { title: 'Wallet of', width: 20, grow: true, of: wallet => wallet.name },
  { title: 'Plan', width: 8, of: wallet => wallet.plan },
  {
    title: 'Balance USD',
    width: 16,
    right: true,
    of: wallet => usd(wallet.balanceUsd),
    tone: wallet => (wallet.balanceUsd.startsWith('-') ? tones.bad : undefined)
  },
  { title: 'Partner', width: 30, from: 90, of: wallet => wallet.partnerId }
]

export const money: View<MoneyData> = {
  name: 'Money',

  async read(trx) {
    const payouts: PayoutRecord[] = []
    for (const status of payoutStatuses) {
      const limit = status === 'REQUESTED' || status === 'APPROVED' ? LISTED : LISTED_ENDED
      payouts.push(...(await listPayouts(trx, { status, page: 1, limit })).payouts)
    }
    return {
      payouts,
      totals: await readPayoutTotals(trx),
      wallets: await listWalletLines(trx, LISTED),
      ledger: await readLedger(trx)
    }
  },

  draw({ payouts, totals, wallets, ledger }, _place, size) {
    const width = size.columns - MARK
    const inset = (text: string) => ({ text: ' '.repeat(MARK) + text })
    const paying = listing(payoutColumns, payouts, ({ payoutId }) => payoutId, width)
    const holding = columns(walletColumns, wallets, width)
    const due = totals.map(({ status, count, amountUsd }) => `${count} ${status} ${usd(amountUsd)} USD`)
    const held = `${ledger.wallets} ${ledger.wallets === 1 ? 'wallet holds' : 'wallets hold'} ${usd(ledger.heldUsd)} USD`
    const below = ledger.negativeWallets > 0 ? `, ${ledger.negativeWallets} below zero` : ''
    return {
      head: [
        cut(`Payouts: ${due.join(', ') || 'nothing to decide or to pay'}`, size.columns),
        (below ? tones.bad : tones.quiet)(cut(held + below, size.columns)),
        ''
      ],
      lines: [
        inset(paying.title),
        ...(payouts.length > 0 ? paying.lines : [inset('No payouts.')]),
        { text: '' },
        inset(holding.title),
        ...holding.lines.map((text, i) => ({ text, id: wallets[i]?.partnerId })),
        ...(wallets.length > 0 ? [] : [inset('No wallets.')])
      ]
    }
  },

  actions({ payouts }, { chosen }) {
    const payout = payouts.find(({ payoutId }) => payoutId === chosen)
    return payout ? steps(payout) : []
  }
}

async function agree(opened: Opened, approval: PayoutApproval): Promise<string> {
  await approve(opened, approval)
  return `${approval.payoutId} is approved.`
}

/** The steps a payout can take from where it is. */
function steps({ payoutId, status, amountUsd, addressCheck }: PayoutRecord): KeyAction[] {
  const what = `${usd(amountUsd)} USD`
  const approving: KeyAction = {
    key: 'a',
    label: 'approve',
    press: () =>
      addressCheck === 'OK'
        ? { run: opened => agree(opened, { payoutId }) }
        : {
            input: {
              label: `The checksum of the address is wrong. Reason to approve ${what} all the same`,
              use: reason => ({
                run: opened => agree(opened, check<PayoutApproval>(PayoutApproval, { payoutId, reason }, ''))
              })
            }
          }
  }
  const paying: KeyAction = {
    key: 'p',
    label: 'paid',
    press: () => ({
      input: {
        label: `Reference of the payment of ${what}`,
        use: reference => ({
          run: async opened => {
            await recordPaid(opened, check<PayoutPayment>(PayoutPayment, { payoutId, reference }, ''))
            return `${payoutId} is recorded as paid.`
          }
        })
      }
    })
  }
  const rejecting: KeyAction = {
    key: 'x',
    label: 'reject',
    press: () => ({
      input: {
        label: `Reason to reject ${what}, for its creator`,
        use: reason => ({
          run: async opened => {
            await reject(opened, check<PayoutRejection>(PayoutRejection, { payoutId, reason }, ''))
            return `${payoutId} is rejected.`
          }
        })
      }
    })
  }
  if (status === 'REQUESTED') return [approving, rejecting]
  return status === 'APPROVED' ? [paying, rejecting] : []
}

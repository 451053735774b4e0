// Days as bars: one line a day and currency, as wide as the terminal allows.
import pc from 'picocolors'

export interface Days {
  partnerId: string
  timezone: string
  asOf: string
  complete: boolean
  data: {
    day: string
    currency: string | null
    contracts: number
    traders: number
    stake: number
    payout: number
    markup: number
    markupUnknown: number
  }[]
}

const WIDEST = 40
// Eighths of a cell.
const PARTS = ' ▏▎▍▌▋▊▉█'

/** The days under a head line for each currency: contracts, traders, stakes, markup, and a bar of it (of contracts where there is none). */
export function drawDays({ data, complete, asOf, timezone }: Days, columns = process.stdout.columns ?? 100): string {
  if (data.length === 0) return 'No contracts.'
  const currencies = [...new Set(data.map(({ currency }) => currency))]
  const parts = currencies.map(currency => {
    const rows = data.filter(row => row.currency === currency)
    const paid = rows.some(({ markup }) => markup > 0)
    const most = Math.max(...rows.map(row => (paid ? row.markup : row.contracts)))
    const width = Math.max(5, Math.min(WIDEST, columns - 57))
    const head = [
      'day'.padEnd(10),
      ...[
        ['contracts', 9],
        ['traders', 7],
        ['stake', 11],
        ['markup', 11]
      ].map(([name, size]) => String(name).padStart(Number(size)))
    ].join('  ')
    const lines = rows.map(row =>
      [
        row.day,
        String(row.contracts).padStart(9),
        String(row.traders).padStart(7),
        amount(row.stake).padStart(11),
        `${amount(row.markup)}${row.markupUnknown > 0 ? '?' : ''}`.padStart(11),
        pc.cyan(bar((paid ? row.markup : row.contracts) / (most || 1), width))
      ]
        .join('  ')
        .trimEnd()
    )
    const sum = (of: 'contracts' | 'markup' | 'stake') => rows.reduce((total, row) => total + row[of], 0)
    const total = `${sum('contracts')} contracts, stakes ${amount(sum('stake'))}, markup ${amount(sum('markup'))}`
    return [
      `${pc.bold(currency ?? 'no currency')}  ${total}`,
      pc.dim(`${head}  ${paid ? 'markup' : 'contracts'}`),
      ...lines
    ].join('\n')
  })
  const unknown = complete ? '' : '; something is still unknown (? where a markup is)'
  return `${parts.join('\n\n')}\n\n${pc.dim(`days by ${timezone}, as of ${asOf}${unknown}`)}`
}

/** With cents, or as many decimals as an amount of a coin has. */
export function amount(value: number): string {
  const cents = value.toFixed(2)
  return Math.abs(Number(cents) - value) < 1e-9 ? cents : value.toFixed(8).replace(/0+$/, '')
}

function bar(share: number, width: number): string {
  const eighths = Math.round(share * width * 8)
  return `${'█'.repeat(Math.floor(eighths / 8))}${(PARTS[eighths % 8] as string).trim()}`
}

// What is assumed of the newer dialect's REST side and of its sockets.
import { unknowns } from '../dialects/next-unknowns.ts'
import type { Report } from './report.ts'
import { type CheckTarget, requestAddress, rest, Talk } from './talk.ts'

/** Checks the way to the account's socket and opens it; null where that fails. Throws for an account of real money. */
export async function openNext(target: CheckTarget, report: Report): Promise<Talk | null> {
  const { status, body } = await rest(target, 'GET', '/accounts')
  const rows = (body as { data?: unknown } | null)?.data
  report.note('the token and the application open the list of accounts', status === 200 && Array.isArray(rows), status)
  if (!Array.isArray(rows)) return null
  for (const row of rows) report.hide(row.account_id)
  const account = rows.find(each => each.account_id === target.accountId)
  report.note('the list names the account', account !== undefined, `${rows.length} accounts`)
  const ofRealMoney = new Error('This is an account of real money: the check buys on demo accounts only.')
  if (account?.account_type === 'real') throw ofRealMoney
  report.note('account_type says demo or real', account && account.account_type === 'demo', account?.account_type)
  report.note(
    'the balance in the list is a number',
    account && typeof account.balance === 'number',
    typeof account?.balance
  )
  const other = await requestAddress({ ...target, accountId: 'DOT0000000' }, report)
  report.note('an unknown account is refused with status 400', other.status === 400, other.status)
  const older = await rest({ ...target, appId: '1' }, 'GET', '/accounts')
  report.note('an application id of v3 is refused with status 401', older.status === 401, refusalOf(older))
  const wrong = await rest({ ...target, token: `${target.token}x` }, 'GET', '/accounts')
  report.note('a wrong token is refused with status 401 and a code', wrong.status === 401, refusalOf(wrong))
  const { address } = await requestAddress(target, report)
  if (address === null) return null
  const { pathname, protocol } = new URL(address)
  report.note('the address of the socket says demo', pathname.endsWith('/demo'), pathname)
  // Where the list has neither demo nor real, only the address shows which money it is.
  if (account?.account_type !== 'demo' && !pathname.endsWith('/demo')) throw ofRealMoney
  if (pathname.endsWith('/real')) throw ofRealMoney
  report.note(
    'the address is wss, where REST is https',
    target.url.startsWith('http:') || protocol === 'wss:',
    protocol
  )
  const talk = await Talk.open(address)
  const again = await Talk.open(address).catch(() => null)
  report.note('an address opens one socket only', again === null)
  again?.close()
  return talk
}

/** Opens sockets until one is refused, beside the one that is open, and closes them again. */
export async function checkSockets(target: CheckTarget, report: Report): Promise<void> {
  const open: Talk[] = []
  const most = unknowns.socketsOfUser + 1
  try {
    while (open.length < most) {
      const { address, status } = await requestAddress(target, report)
      const talk = address === null ? null : await Talk.open(address).catch(() => null)
      if (talk === null) {
        report.note(
          `a user has ${most} sockets at most`,
          open.length + 1 === most,
          `number ${open.length + 2} is refused, ${status}`
        )
        return
      }
      open.push(talk)
    }
    report.note(`a user has ${most} sockets at most`, false, `number ${open.length + 1} opened`)
  } finally {
    for (const talk of open) talk.close()
  }
}

function refusalOf({ status, body }: { status: number; body: unknown }): string {
  const errors = (body as { errors?: { code?: string; message?: string }[] } | null)?.errors?.[0]
  return `${status} ${errors?.code ?? 'no code'}: ${errors?.message ?? ''}`
}

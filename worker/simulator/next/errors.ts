// Errors of the newer dialect: the first dialect's codes, plus a finer reason code and the values of the text in order.
// A closed market includes its opening time.
import { type Reason, SimulatedRefusal } from '../engine/refusal.ts'
import { toV3Error, V3Error } from '../v3/errors.ts'

/** Where the finer code is not the reason's own name; null: there is none. */
const subcodes: Partial<Record<Reason, string | null>> = {
  CancelNotAvailable: null,
  ContractNotOffered: 'InvalidContractType',
  DealCancellationNotOffered: 'DealCancellationNotAvailable',
  InvalidBasis: null,
  InvalidMarkup: null,
  StakeMoreThanPrice: 'InvalidStakeMoreThanPrice',
  TooCloseToExpiry: null,
  TradingSuspended: 'TradeTemporarilyUnavailable'
}

/** The error in this dialect's format. */
export function toNextError(error: unknown, closedCode: string): V3Error {
  const older = toV3Error(error, closedCode)
  if (!(error instanceof SimulatedRefusal)) return older
  const subcode = subcodes[error.reason] === undefined ? error.reason : subcodes[error.reason]
  const opens = error.reason === 'MarketIsClosed' ? error.args[0] : undefined
  const message = opens === undefined ? older.message : `${older.message} Market will open at ${opens}.`
  const details = error.field === 'symbol' ? { field: 'underlying_symbol' } : older.details
  return new V3Error(older.code, message, details, {
    ...(subcode && subcode !== older.code ? { subcode } : {}),
    ...(error.args.length > 0 ? { code_args: error.args } : {})
  })
}

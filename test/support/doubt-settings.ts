import { stretched } from './busy.ts'

/** Settings under which an order whose purchase got no reply is in doubt, and resolved, within seconds. */
export const soonInDoubt = {
  // Long enough for a machine that has little time.
  ORDER_TTL_MS: '60000',
  PERMIT_MS: '500',
  RECONCILE_AFTER_MS: '1000',
  // Calls that are not held up are in time on a busy machine as well.
  BROKER_ANSWER_TIMEOUT_MS: String(stretched(700)),
  SWEEP_MS: '250',
  SETTLE_WAIT_MS: '60000'
}

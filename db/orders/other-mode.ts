// An account that was exchanged as one of the other mode since an order for it was stored: what the order was checked for does not hold.

/** The mode of an order's account where it is another one than when the order was stored, as SQL; null where it is the same. */
export const otherModeOf = (order: string) =>
  `(select a.account_mode from broker_accounts a where a.id = ${order}.broker_account_id and a.account_mode <> ${order}.account_mode)`

/** Why such an order is not bought, as SQL. */
export const otherModeMessageOf = (order: string, mode: string) =>
  `'Account ' || ${order}.account_id || ' is ' || ${mode} || ' by now, and was ' || ${order}.account_mode ||
   ' when the order was stored: nothing was bought.'`

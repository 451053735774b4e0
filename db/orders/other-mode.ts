// Accounts that were exchanged again with the other mode (REAL or DEMO) after an order for them was stored: the order must not be bought.

/** The mode of an order's account where it is another one than when the order was stored, as SQL; null where it is the same. */
export const otherModeOf = (order: string) =>
  `(select a.account_mode from broker_accounts a where a.id = ${order}.broker_account_id and a.account_mode <> ${order}.account_mode)`

/** Why such an order is not bought, as SQL. */
export const otherModeMessageOf = (order: string, mode: string) =>
  `'Account ' || ${order}.account_id || ' is ' || ${mode} || ' by now, and was ' || ${order}.account_mode ||
   ' when the order was stored: nothing was bought.'`

// What becomes of each column with data about a trader when the trader is erased, and what an export holds. A test
// compares this with the schema: a new table or column is decided on here, or the test fails.

/**
 * keep: the law, the broker's books or other parties need it, and it names nobody once the names beside it are gone.
 * blank: null. pseudonym: `erased-` and our own id of the trader. { set }: an expression of SQL.
 */
export type ColumnDecision = 'keep' | 'blank' | 'pseudonym' | { set: string }

export interface TableDecision {
  /** The trader's rows, as SQL with the bindings traderId, partnerId and externalId; null where no column names the trader. */
  rows: string | null
  /**
   * By column, or for the whole table: delete, keep, or expires: rows that housekeeping deletes by their age, and that nothing
   * rewrites before.
   */
  becomes: 'delete' | 'keep' | 'expires' | Record<string, ColumnDecision>
  /** Columns that an export leaves out: secrets, and what opens them. */
  secret?: string[]
  why: string
}

const kept = (...columns: string[]): Record<string, ColumnDecision> =>
  Object.fromEntries(columns.map(column => [column, 'keep']))

const ofTrader = 'trader_id = :traderId'
const ofParty = 'party_id = :traderId'
const byName = 'partner_id = :partnerId and trader_external_id = :externalId'
/** Live orders of the trader. The condition by name is for the index; only erasing changes a name. */
export const liveOrdersOf = `${byName} and ${ofTrader}`
const inEvents = 'partner_id = :partnerId and trader = :externalId'
const accountsOf = 'account_id in (select account_id from broker_accounts where trader_id = :traderId)'

/** What becomes of the columns of orders, live and archived. */
const ordersBecome: Record<string, ColumnDecision> = {
  ...kept('id', 'partner_id', 'trader_id', 'broker_account_id', 'account_id', 'account_mode', 'currency'),
  ...kept('app_id', 'dialect', 'kind', 'client_order_id', 'request_hash', 'asset', 'contract_type', 'direction'),
  ...kept('multiplier', 'stake', 'duration', 'duration_unit', 'barrier', 'stop_loss', 'take_profit', 'phase'),
  ...kept('status', 'attempt', 'created_at', 'queued_at', 'expires_at', 'sent_at', 'permit_until', 'sender'),
  ...kept('resolve_at', 'checks', 'broker_order_id', 'transaction_id', 'buy_price', 'payout', 'commission'),
  ...kept('opened_at', 'expiry_at', 'current_value', 'unrealized_pnl', 'marked_at', 'pnl', 'entry_price'),
  ...kept('exit_price', 'closed_at', 'error_code', 'error_message', 'error_extras', 'retryable', 'evidence'),
  ...kept('lease_holder', 'lease_until', 'reply_channel', 'copied_from', 'follow_id', 'has_followers', 'trace'),
  ...kept('reset_attempt', 'answered_at', 'reset_at', 'absence_checks', 'claim_no', 'stake_in_account'),
  ...kept('exchange_rate', 'not_before', 'raised_to_minimum', 'closed_early', 'close_at', 'close_tries'),
  ...kept('limits_version', 'new_stop_loss', 'new_take_profit', 'limits_at', 'limits_tries', 'markup'),
  trader_external_id: 'pseudonym'
}

export const personalData: Record<string, TableDecision> = {
  traders: {
    rows: 'id = :traderId',
    becomes: {
      ...kept('id', 'partner_id', 'created_at', 'number'),
      external_id: 'pseudonym',
      email: 'blank',
      name: 'blank',
      active_account_id: 'blank',
      connected_at: 'blank',
      password_hash: 'blank',
      disabled_at: { set: 'coalesce(disabled_at, now())' }
    },
    secret: ['password_hash'],
    why: 'Orders, money and sums refer to the row; it is disabled, and nothing in it leads to the person.'
  },
  broker_accounts: {
    rows: ofTrader,
    becomes: {
      ...kept('id', 'partner_id', 'trader_id', 'account_id', 'account_mode', 'currency', 'connected_at'),
      ...kept('audited_at', 'compared_at', 'proven_version', 'was_proven', 'compared_generation'),
      ...kept('refusals', 'refused_at'),
      // An empty token is sealed: a column without a seal would make the rotation of keys fail.
      token_key_id: 'keep',
      token_sealed: 'keep',
      token_version: 'keep',
      status: { set: `'REJECTED'` },
      rejected_reason: { set: `'TOKEN_REFUSED'` },
      renewal_version: 'blank',
      refresh_key_id: 'blank',
      refresh_sealed: 'blank',
      refresh_digest: 'blank',
      token_expires_at: 'blank',
      renew_at: 'blank',
      renewing_until: 'blank',
      prove_at: 'blank'
    },
    secret: ['token_key_id', 'token_sealed', 'refresh_key_id', 'refresh_sealed', 'refresh_digest'],
    why: 'The tokens go. The account id stays, as in the orders: without it they cannot be compared with the broker’s books.'
  },
  sessions: { rows: ofTrader, becomes: 'delete', secret: ['hash'], why: 'Credentials.' },
  password_resets: { rows: ofTrader, becomes: 'delete', secret: ['hash'], why: 'Credentials.' },
  stream_tickets: { rows: byName, becomes: 'delete', secret: ['hash'], why: 'Credentials.' },
  community_profiles: {
    rows: ofParty,
    becomes: 'delete',
    why: 'Written by the trader; the author’s name of all posts.'
  },
  community_messages: { rows: ofParty, becomes: 'delete', why: 'Free text of the trader’s.' },
  community_likes: { rows: ofParty, becomes: 'delete', why: 'Nobody needs to know whose it was; the count goes down.' },
  community_bots: { rows: ofParty, becomes: 'delete', why: 'Free text of the trader’s, given away.' },
  marketplace_reviews: {
    rows: ofParty,
    becomes: { ...kept('id', 'bot_id', 'partner_id', 'party_id', 'rating', 'created_at'), comment: 'blank' },
    why: 'The rating is in the bot’s sum; the text goes.'
  },
  marketplace_bots: { rows: ofParty, becomes: 'keep', why: 'Goods that others bought, and what they brought.' },
  marketplace_purchases: { rows: ofParty, becomes: 'keep', why: 'Sales; the party is our own id.' },
  marketplace_subscriptions: { rows: ofParty, becomes: 'keep', why: 'Sales; the party is our own id.' },
  payouts: { rows: ofParty, becomes: 'keep', why: 'Payments, with where they went.' },
  ledger_accounts: {
    rows: null,
    becomes: 'keep',
    why: 'Accounts are of partners; a creator’s share is in its bots and payouts.'
  },
  ledger_entries: { rows: null, becomes: 'keep', why: 'Books, only added to.' },
  earnings_entries: { rows: null, becomes: 'keep', why: 'Books, only added to.' },
  ledger_transfers: {
    rows: null,
    becomes: 'keep',
    why: 'Books, only added to; they name sales and payouts by our ids.'
  },
  orders: {
    rows: liveOrdersOf,
    becomes: ordersBecome,
    why: 'Records of trades, and one clientOrderId buys once for ever.'
  },
  orders_archive: {
    // As they are in the index; once they are erased, no order has this name.
    rows: byName,
    becomes: ordersBecome,
    why: 'Records of trades, as in orders.'
  },
  archived_names: { rows: null, becomes: 'keep', why: 'Hashes of clientOrderIds, which a partner chose.' },
  archived_traders: { rows: ofTrader, becomes: 'keep', why: 'When the trader last had an order that is archived.' },
  archive_months: { rows: null, becomes: 'keep', why: 'Counts of orders.' },
  follows: {
    rows: ofTrader,
    becomes: {
      ...kept('id', 'partner_id', 'trader_id', 'leader_id', 'risk_pct', 'max_drawdown_pct', 'base_balance', 'since'),
      ...kept('created_at', 'pnl', 'since_pnl', 'broker_account_id', 'account_id', 'account_mode', 'currency'),
      ...kept(
        'mirror_closes',
        'skipped_copies',
        'skipped_order',
        'skipped_reason',
        'skipped_at',
        'stopped_at',
        'active_since'
      ),
      trader_external_id: 'pseudonym',
      status: { set: `'STOPPED'` }
    },
    why: 'Orders refer to it; it is stopped, and so are those of others that follow this trader.'
  },
  trade_records: {
    rows: byName,
    becomes: {
      ...kept('id', 'partner_id', 'broker_contract_id', 'client_broker_loginid', 'contract_type', 'stake_amount'),
      ...kept('profit_loss', 'payout_amount', 'currency', 'symbol', 'trade_timestamp', 'traded_at', 'collected_at'),
      trader_external_id: 'pseudonym',
      metadata: 'blank'
    },
    why: 'The partner’s records of trades; what else it wrote into them goes.'
  },
  trader_days: { rows: ofTrader, becomes: 'keep', why: 'Sums of orders.' },
  trader_days_late: { rows: ofTrader, becomes: 'keep', why: 'Marks of sums to be made.' },
  analytics_trader_days: { rows: ofTrader, becomes: 'keep', why: 'Sums of orders.' },
  analytics_late_days: { rows: ofTrader, becomes: 'keep', why: 'Marks of sums to be made.' },
  analytics_closes: { rows: null, becomes: 'keep', why: 'Amounts of orders of many traders, by our own numbers.' },
  analytics_step_chunks: { rows: null, becomes: 'keep', why: 'Lists of many traders, by our own numbers.' },
  analytics_step_places: { rows: null, becomes: 'keep', why: 'Where each is in these lists, by our own numbers.' },
  analytics_step_totals: { rows: null, becomes: 'keep', why: 'Sums of orders of many traders.' },
  analytics_step_changes: { rows: null, becomes: 'keep', why: 'Amounts of orders, by our own numbers.' },
  account_leases: { rows: accountsOf, becomes: 'keep', why: 'Which worker serves an account.' },
  unowned_contracts: { rows: accountsOf, becomes: 'keep', why: 'Evidence against buying twice, for 30 days.' },
  contract_breaks: { rows: accountsOf, becomes: 'keep', why: 'Differences from the broker’s books.' },
  trading_halts: { rows: 'subject = :traderId', becomes: 'keep', why: 'An operator’s decision.' },
  audit_log: {
    rows: 'target = :traderId',
    becomes: 'keep',
    // The hash belongs to the chain of the audit log, not to the trader.
    secret: ['hash'],
    why: 'Only added to, and chained: what operators did.'
  },
  events: {
    rows: inEvents,
    becomes: 'expires',
    why: 'The log that partners read is not rewritten; gone after EVENT_DAYS.'
  },
  event_outbox: { rows: inEvents, becomes: 'expires', why: 'Moves into the log within seconds.' },
  request_groups: {
    rows: null,
    becomes: 'expires',
    why: 'Names the trader in packed rows, of which an export has its entries; gone after REQUEST_DAYS.'
  },
  requests: { rows: null, becomes: 'expires', why: 'The same in the form of the previous version, copied there.' },
  idempotency_keys: { rows: null, becomes: 'expires', why: 'Sealed responses, not found by trader; gone after a day.' },
  broker_requests: { rows: null, becomes: 'expires', why: 'Gone within minutes.' },
  test_broker_entries: {
    rows: null,
    becomes: 'keep',
    why: 'The books of the test broker: play money on accounts that are named by their id there alone.'
  },
  webhook_attempts: {
    rows: null,
    becomes: 'expires',
    why: 'What the partner’s server returned. What was sent to it is with the partner, which has to be notified.'
  }
}

/** Tables in which nothing is a trader's. */
export const withoutTraders = [
  'analytics_checks',
  'analytics_closes_until',
  'analytics_day_traders',
  'analytics_days',
  'analytics_late_closes',
  'analytics_late_day_traders',
  'analytics_late_quarters',
  'analytics_quarters',
  'analytics_step_groups',
  'analytics_steps',
  'analytics_until',
  'api_keys',
  'broker_app_refusals',
  'call_counters',
  'call_records',
  'database_lineage',
  'deployments',
  'event_epoch',
  'event_faults',
  'event_positions',
  'lease_holders',
  'marketplace_changes',
  'marketplace_listing',
  'marketplace_words',
  'migrations',
  'migrations_lock',
  'partners',
  'processes',
  'reconciled_currencies',
  'reconciled_days',
  'report_tokens',
  'secrets',
  'site_files',
  'test_broker',
  'tick_leases',
  'tick_wants',
  'trader_days_until',
  'usage_hours',
  'webhook_endpoints',
  'webhook_pending',
  'webhook_replays',
  'webhook_senders',
  'webhook_tests'
]

// What each error means for the caller: the cause, what to do about it, and its fields beside code, message and request
// id. The description and the reference page show it; the compiler checks that no code is missing.
import type { ErrorCode, ErrorExtras } from './errors.ts'

export interface Explained {
  cause: string
  remedy: string
  /** An example of the message, where it is not the default one. */
  message?: string
  extras?: ErrorExtras
}

const ORDER = 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma'

export const catalogue: Record<ErrorCode, Explained> = {
  VALIDATION_FAILED: {
    cause:
      'A field of the body, the query or the path breaks its schema; `details` names the first 20, `violations` counts them.',
    remedy: 'Correct the fields named. The same request will fail again.',
    message: '/body/stake must be at least 0.35',
    extras: { details: [{ path: '/body/stake', message: 'must be at least 0.35' }], violations: 1 }
  },
  MALFORMED_REQUEST: {
    cause:
      'What came is not HTTP/1.1, or does not have one valid `Host`. Any path can return it; the connection is closed.',
    remedy: 'Let a library make the request.'
  },
  MALFORMED_JSON: {
    cause: 'The body cannot be read as JSON in UTF-8, or has a field called `__proto__`.',
    remedy: 'Send one JSON document, and let a library write it.'
  },
  UNAUTHENTICATED: {
    cause: 'The key or the session is missing, malformed, unknown or expired.',
    remedy: 'Send `Authorization: Bearer <key>`, or log in again. Do not retry unchanged.',
    message: 'Send a valid API key: Authorization: Bearer service_live_…'
  },
  INVALID_CREDENTIALS: {
    cause: 'No trader has this e-mail with this password; which of the two is wrong is not shown.',
    remedy: 'Let the trader try again; after ten failures the next attempts take longer, up to 8 seconds.'
  },
  SUBSCRIPTION_INACTIVE: {
    cause: 'The plan fee is unpaid. `topUpUsd` is what the wallet lacks.',
    remedy: 'Top up the wallet; the plan resumes at once.',
    extras: { saasStatus: 'INACTIVE', topUpUsd: 148.5 }
  },
  WALLET_INSUFFICIENT: {
    cause: 'The wallet holds less than the price.',
    remedy: 'Top up by `requiredUsd` less `balanceUsd`, then repeat.',
    extras: { requiredUsd: 19.9, balanceUsd: 4.25 }
  },
  KEY_REVOKED: { cause: 'This key was revoked.', remedy: 'Create a new key and replace this one everywhere.' },
  PARTNER_SUSPENDED: {
    cause: 'The service’s operator has stopped this partner.',
    remedy: 'Ask the operator; no retry will help.'
  },
  HTTPS_REQUIRED: {
    cause: 'The request came in clear text.',
    remedy: 'Use https, and consider the key that travelled in clear text as known: revoke it.'
  },
  CROSS_SITE_REFUSED: {
    cause: 'A session cookie came with a request that a page of another site made.',
    remedy: 'Call from your own site, or from your server with `X-Trader-Session`.'
  },
  INSUFFICIENT_SCOPE: {
    cause: 'The key was not given the scope this operation needs.',
    remedy: 'Use a key that has `requiredScope`.',
    message: 'This needs a key with the scope trading:write.',
    extras: { requiredScope: 'trading:write' }
  },
  NOT_FOUND: {
    cause: 'There is no such path or record, or it belongs to somebody else; the two look the same.',
    remedy: 'Check the identifier and which key made it.'
  },
  TRADER_NOT_FOUND: {
    cause: 'This `traderExternalId` never went through the token exchange.',
    remedy: 'Call `POST /v1/auth/broker/exchange` for the trader first.'
  },
  ACCOUNT_NOT_FOUND: {
    cause: 'The trader has no broker account of that id.',
    remedy: 'See `GET /v1/accounts`, or exchange a token for the account.'
  },
  FOLLOW_MISMATCH: {
    cause:
      "The leader's active account and this trader's differ in mode (REAL, DEMO) or currency; the message names both.",
    remedy: 'Activate an account of the same mode and currency, or choose a leader by `accountMode` and `currency`.',
    message: 'The leader trades a REAL account in USD, account VRTC1234567 is a DEMO account in USD.'
  },
  LEADER_NOT_FOUND: {
    cause: 'There is no such leader, or this trader does not follow it.',
    remedy: 'Choose one of `GET /v1/copy/leaders`.'
  },
  BROKER_DISCONNECTED: {
    cause: 'The broker refused the stored token of the active account.',
    remedy: 'Have the trader connect again and exchange the new token; an order then needs a new `clientOrderId`.'
  },
  METHOD_NOT_ALLOWED: {
    cause: 'The path exists, the method does not.',
    remedy: 'Use one of the methods in `Allow`.',
    message: 'This path takes POST.'
  },
  REQUEST_TIMEOUT: {
    cause:
      'The request did not arrive whole within 30 seconds, its header fields within 10, and nothing was done. Any path can return it.',
    remedy: 'Repeat it, an order under the same `clientOrderId`.'
  },
  CLIENT_ORDER_ID_REUSED: {
    cause: 'The same `clientOrderId` came before with other parameters; `orderId` is the order it made.',
    remedy: 'A new order needs a new id; a retry needs the same parameters.',
    extras: { orderId: ORDER }
  },
  CONFLICT: {
    cause: 'The record is in a state that does not allow the step; the message names it.',
    remedy: 'Read the record again and decide again.',
    message: 'The order is PENDING; only an OPEN order can be CLOSED.'
  },
  PRICE_CHANGED: {
    cause: 'The price is not `expectedPriceUsd` any more; `priceUsd` is what it is now. No money moved.',
    remedy: 'Show the new price and let the buyer confirm it.',
    extras: { priceUsd: 24.9 }
  },
  LIMIT_REACHED: {
    cause: 'The partner, or the trader, keeps as many records or bytes of this kind as one may; `limit` is how many.',
    remedy: 'Delete what is not needed, or ask the operator.',
    message: 'The limit of 1000 marketplace bots of a partner and its traders is reached.',
    extras: { limit: 1000 }
  },
  IDEMPOTENCY_IN_PROGRESS: {
    cause: 'The first request under this `Idempotency-Key` has no response yet.',
    remedy: 'Wait the seconds in `Retry-After`, then repeat the same request.'
  },
  EMAIL_TAKEN: { cause: 'A trader of yours has this e-mail already.', remedy: 'Log in instead.' },
  TENANT_SLUG_TAKEN: { cause: 'Another partner’s site has this `tenantSlug`.', remedy: 'Choose another one.' },
  CURSOR_EXPIRED: {
    cause:
      'Events after this cursor are not kept any more, or the log was restored to an earlier point. `oldest` and `latest` are the cursors of what is kept.',
    remedy:
      'Read the records themselves (orders, accounts), then go on after `latest`; or after `oldest` to see every event that is kept.',
    extras: { oldest: 'Zk3vT1nq0aWcJxUe8rYbHg', latest: 'p0Qm4bJxL7sVd2RkYt9wEA' }
  },
  PAYLOAD_TOO_LARGE: {
    cause: 'The body is larger than the operation takes: 64 KiB to 1 MiB, as its description says.',
    remedy: 'Send less.',
    message: 'The body is larger than the 65536 bytes this operation takes.'
  },
  UNSUPPORTED_MEDIA_TYPE: {
    cause: 'The body is not declared as JSON in UTF-8, or it is compressed.',
    remedy: 'Send `Content-Type: application/json`, uncompressed.'
  },
  IDEMPOTENCY_KEY_REUSED: {
    cause: 'The same `Idempotency-Key` came within 24 hours with another operation, path, body or trader session.',
    remedy: 'A new request needs a new key; a repeat needs the same request.'
  },
  MARKET_CLOSED: {
    cause: 'The market of this asset is closed now.',
    remedy: 'Wait `secondsUntilOpen` seconds where it is given, then use a new `clientOrderId`.',
    extras: { secondsUntilOpen: 3600 }
  },
  INVALID_CONTRACT: {
    cause: 'Asset, contract type, barrier and duration do not go together, or the broker does not offer it.',
    remedy: 'Change the order. Nothing was bought.',
    message: "DIGITMATCH needs a barrier: one digit from '0' to '9'."
  },
  INSUFFICIENT_BALANCE: {
    cause: 'The broker reports that the trader’s account cannot fund this order.',
    remedy: 'Lower the stake or let the trader fund the account, then use a new `clientOrderId`.'
  },
  RATE_LIMITED: {
    cause: 'The minute’s calls of this key, or of this trader, are used up.',
    remedy: 'Wait the seconds in `Retry-After`, then repeat.',
    message: 'The limit of 600 calls a minute for this key is reached.'
  },
  HEADERS_TOO_LARGE: {
    cause:
      'The header fields are larger than 16 KiB together, or more than a hundred, most often because of cookies. Any path can return it.',
    remedy: 'Send fewer or smaller header fields.'
  },
  INTERNAL: {
    cause: 'Something failed on our side.',
    remedy: 'Repeat safely (orders with the same `clientOrderId`); quote `requestId` if it stays.'
  },
  BROKER_UPSTREAM: {
    cause:
      'The broker did not respond as expected, or not in time. With `status` FAILED there is certainly no contract; with PENDING it is not known yet.',
    remedy: 'Repeat with the same `clientOrderId`: it never buys twice.',
    message:
      "The broker's response is not known yet; repeat the request with the same clientOrderId, it never buys twice.",
    extras: { orderId: ORDER, status: 'PENDING' }
  },
  TRADING_HALTED: {
    cause:
      'The service’s operator has halted placing: for everybody, for this partner, for its broker application or for the asset; `scope` shows which. With `orderId` the order was waiting and is FAILED. Nothing was bought. Contracts may still be closed, and orders that were placed settle.',
    remedy: 'Wait the seconds in `Retry-After`, then repeat with the same `clientOrderId`.',
    message: 'Placing is halted, nothing was bought: the broker is being maintained',
    extras: { scope: 'asset', reason: 'the broker is being maintained' }
  },
  UNAVAILABLE: {
    cause:
      'A part of the service is down or busy, or the process is stopping. What the request was to do may have been done.',
    remedy: 'Wait the seconds in `Retry-After`, then repeat safely, an order with the same `clientOrderId`.'
  }
}

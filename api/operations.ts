// All operations in the order of the specification. What is not in the list does not exist: routing, checks, validation,
// the description and the contract tests all read it.

import { refundPurchase, refundSubscription } from './admin.ts'
import { analyseBotCandles, copilotSignal } from './ai/ai.ts'
import { getActivity, getMarketplaceAnalytics } from './analytics/activity.ts'
import { getReconciliation, removeReconciliationToken, storeReconciliationToken } from './analytics/reconciliation.ts'
import { getRevenue } from './analytics/revenue.ts'
import { getTraderAnalytics, listTraderAnalytics } from './analytics/traders.ts'
import { createCommunityBot, deleteCommunityBot, likeCommunityBot, listCommunityBots } from './community/bots.ts'
import {
  deleteMessage,
  getCommunityProfile,
  getLeaderboard,
  listMessages,
  postMessage,
  updateCommunityProfile
} from './community/community.ts'
import { followLeader, listLeaders, listMyFollows, unfollowLeader } from './copy.ts'
import { specOperation } from './description/spec.ts'
import { getEvent, listEvents } from './events/events.ts'
import { createStreamTicket } from './events/stream/tickets.ts'
import { createKey, listKeys, revokeKey } from './keys.ts'
import { createCreatorBot, listCreatorBots, publishBot, retireBot, updateCreatorBot } from './marketplace/creator.ts'
import { getCreatorEarnings, listPayouts, requestPayout } from './marketplace/earnings.ts'
import { getMarketplaceBot, listBotReviews, listMarketplaceBots, reviewBot } from './marketplace/listings.ts'
import {
  cancelSubscription,
  listMyPurchases,
  listMySubscriptions,
  purchaseBot,
  subscribeToBot
} from './marketplace/sales.ts'
import { getMe } from './me.ts'
import type { Operation } from './operation.ts'
import { getOrder } from './orders/by-id.ts'
import { closeMultiplierOrder, getMultiplierSpec, placeMultiplierOrder } from './orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from './orders/orders.ts'
import { listOpenPositions } from './orders/positions.ts'
import { requestsOperation } from './requests.ts'
import { deployTemplate, listMyDeployments, listTemplates } from './sites/templates.ts'
import { activateAccount, exchangeTokens, listAccounts } from './traders/accounts.ts'
import { getBalance } from './traders/balance.ts'
import {
  changePassword,
  confirmPassword,
  disableTrader,
  enableTrader,
  endSessions,
  resetPassword
} from './traders/credentials.ts'
import { getTraderMe, logInTrader, logOutTrader, signUpTrader } from './traders/traders.ts'
import { collectTrade, listTradeHistory } from './traders/trades.ts'
import { getUsage } from './usage.ts'
import { listWebhookDeliveries, replayWebhook, retryWebhookDelivery, testWebhook } from './webhooks/deliveries.ts'
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook
} from './webhooks/endpoints.ts'

/** GET /v1/_spec, which describes this list. */
export const getSpec = specOperation(() => operations)

/** GET /v1/requests, which shows calls of this list and openings of the stream. */
export const listRequests = requestsOperation(() => [...operations.map(({ name }) => name), 'openStream'])

export const operations: Operation[] = [
  getMe,
  exchangeTokens,
  listAccounts,
  activateAccount,
  getBalance,
  placeBinaryOrder,
  closeOrder,
  listOrders,
  getOrder,
  placeMultiplierOrder,
  closeMultiplierOrder,
  listOpenPositions,
  getMultiplierSpec,
  listLeaders,
  followLeader,
  unfollowLeader,
  listMyFollows,
  copilotSignal,
  analyseBotCandles,
  listTemplates,
  deployTemplate,
  listMyDeployments,
  createKey,
  listKeys,
  revokeKey,
  signUpTrader,
  logInTrader,
  getTraderMe,
  logOutTrader,
  changePassword,
  resetPassword,
  confirmPassword,
  endSessions,
  disableTrader,
  enableTrader,
  collectTrade,
  listTradeHistory,
  listEvents,
  getEvent,
  createStreamTicket,
  createWebhook,
  listWebhooks,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  listWebhookDeliveries,
  retryWebhookDelivery,
  replayWebhook,
  getRevenue,
  listTraderAnalytics,
  getTraderAnalytics,
  getActivity,
  getMarketplaceAnalytics,
  getReconciliation,
  storeReconciliationToken,
  removeReconciliationToken,
  getUsage,
  listRequests,
  getSpec,
  getCommunityProfile,
  updateCommunityProfile,
  getLeaderboard,
  listMessages,
  postMessage,
  deleteMessage,
  listCommunityBots,
  createCommunityBot,
  deleteCommunityBot,
  likeCommunityBot,
  listMarketplaceBots,
  getMarketplaceBot,
  listBotReviews,
  reviewBot,
  purchaseBot,
  subscribeToBot,
  cancelSubscription,
  listMyPurchases,
  listMySubscriptions,
  listCreatorBots,
  createCreatorBot,
  updateCreatorBot,
  publishBot,
  retireBot,
  getCreatorEarnings,
  requestPayout,
  listPayouts,
  refundPurchase,
  refundSubscription
]

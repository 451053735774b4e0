// Calls that trade: quoting, buying, following and selling contracts.

import { longcodeOf, type PurchaseTerms } from '../engine/contracts.ts'
import { toAmount, unitsWithin } from '../engine/currencies.ts'
import { priceMoves } from '../engine/pricing.ts'
import type { SimulatedAccount, SimulatedContract } from '../engine/records.ts'
import { SimulatedRefusal } from '../engine/refusal.ts'
import { presentContract, presentLimits, presentQuote } from './contract.ts'
import { V3Error } from './errors.ts'
import { MAX_PROPOSAL_STREAMS } from './market.ts'
import type { SimulatedStream } from './stream.ts'
import type { CallContext, CallRequest, CallResponse, Handler } from './v3.ts'

const MAX_PROPOSALS = 100

const proposal: Handler = (request, call) => {
  const { v3, connection, grant, tail } = call
  const terms = termsOf(request)
  const account = grant?.account ?? null
  const quote = v3.engine.quote(terms, account)
  const id = v3.newId()
  connection.proposals.set(id, terms)
  if (connection.proposals.size > MAX_PROPOSALS) {
    const oldest = connection.proposals.keys().next().value
    if (oldest !== undefined) connection.proposals.delete(oldest)
  }
  const body = { proposal: presentQuote(id, quote) }
  if (request.subscribe !== 1) return { body }
  if (connection.streams.count('proposal') >= MAX_PROPOSAL_STREAMS) {
    throw new V3Error('RateLimit', 'You have reached the limit of live proposals.')
  }
  const stream = connection.streams.open(
    { kind: 'proposal', key: JSON.stringify(terms), tail, id },
    ({ push, end }) => {
      const forget = () => connection.proposals.delete(id)
      // What never changes its price is quoted once; the rest again with every tick, until it cannot be quoted.
      if (!priceMoves(quote.offer)) return forget
      const stop = v3.engine.market.watch(quote.offer.symbol, () => {
        try {
          push('proposal', presentQuote(id, v3.engine.quote(terms, account)))
        } catch (error) {
          if (!(error instanceof SimulatedRefusal)) throw error
          end()
        }
      })
      return () => {
        stop()
        forget()
      }
    }
  )
  return { body, stream }
}

const buy: Handler = (request, call) => {
  const { v3, connection, account, tail } = call
  const id = request.buy as string
  const byId = id !== '1'
  if (!byId && !request.parameters) {
    throw new V3Error('InputValidationFailed', 'Input validation failed: parameters.', { parameters: 'is required' })
  }
  const terms = byId ? connection.proposals.get(id) : termsOf(request.parameters as CallRequest)
  if (!terms) throw new V3Error('InvalidContractProposal', 'Unknown contract proposal.')
  // The rate limit applies before the call is validated: a refused call must not have bought anything.
  if (request.subscribe === 1) connection.streams.checkRoom()
  const { currency } = account
  const maxCents = unitsWithin(request.price as number, currency).floor
  const contract = v3.engine.buy(account, { appId: connection.appId, terms, maxCents })
  if (byId) {
    connection.proposals.delete(id)
    connection.streams.forget(id)
  }
  const body = {
    buy: {
      balance_after: toAmount(account.balanceCents, currency),
      buy_price: toAmount(contract.buyCents, currency),
      contract_id: contract.id,
      longcode: longcodeOf(contract.offer),
      payout: toAmount(contract.payoutCents, currency),
      purchase_time: contract.startEpoch,
      shortcode: contract.shortcode,
      start_time: contract.startEpoch,
      transaction_id: contract.buyTransaction
    }
  }
  const sent = () => {
    contract.delivered = true
  }
  if (request.subscribe !== 1) return { body, sent }
  const stream = followContract({ v3, connection, tail }, contract, null)
  return { body, sent, stream }
}

const proposalOpenContract: Handler = (request, call) => {
  const { v3, account } = call
  const id = request.contract_id as number | undefined
  if (id === undefined) return allOpenContracts(request, call)
  const contract = v3.engine.find(account, id)
  if (!contract) throw new V3Error('ContractNotFound', 'Unknown contract.', { field: 'contract_id' })
  const body = { proposal_open_contract: presentContract(v3.engine, contract) }
  // The broker's own client relies on it: a contract that has ended gets no stream.
  if (request.subscribe !== 1 || contract.status !== 'open') return { body }
  return { body, stream: followContract(call, contract, versionOf(contract)) }
}

function allOpenContracts(request: CallRequest, call: CallContext): CallResponse[] {
  const { v3, connection, account, tail } = call
  const open = [...account.open.values()]
  const bodies = open.map(contract => ({ proposal_open_contract: presentContract(v3.engine, contract) }))
  if (bodies.length === 0) bodies.push({ proposal_open_contract: {} })
  if (request.subscribe !== 1) return bodies.map(body => ({ body }))
  const key = `all ${account.loginid}`
  const stream = connection.streams.open({ kind: 'proposal_open_contract', key, tail }, ({ id, push }) => {
    const stops = new Map<number, () => void>()
    const follow = (contract: SimulatedContract) => {
      const stop = v3.engine.lives.watch(contract, () => {
        push('proposal_open_contract', { ...presentContract(v3.engine, contract), id })
        if (contract.status === 'open') return
        stops.get(contract.id)?.()
        stops.delete(contract.id)
      })
      stops.set(contract.id, stop)
    }
    for (const contract of account.open.values()) follow(contract)
    const stopListening = listenForPurchases(account, contract => {
      push('proposal_open_contract', { ...presentContract(v3.engine, contract), id })
      follow(contract)
    })
    return () => {
      stopListening()
      for (const stop of stops.values()) stop()
    }
  })
  return bodies.map(body => ({ body, stream }))
}

function listenForPurchases(account: SimulatedAccount, bought: (contract: SimulatedContract) => void): () => void {
  const listener: Parameters<SimulatedAccount['listeners']['add']>[0] = event => {
    if (event.kind === 'bought') bought(event.contract)
  }
  account.listeners.add(listener)
  return () => account.listeners.delete(listener)
}

/** Opens the stream of one contract, open until it is forgotten. `sent` is the state sent in the first response. */
function followContract(
  { v3, connection, tail }: Pick<CallContext, 'v3' | 'connection' | 'tail'>,
  contract: SimulatedContract,
  sent: string | null
): SimulatedStream {
  const { engine } = v3
  return connection.streams.open({ kind: 'proposal_open_contract', key: String(contract.id), tail }, stream => {
    const push = () => stream.push('proposal_open_contract', { ...presentContract(engine, contract), id: stream.id })
    const stop = engine.lives.watch(contract, push)
    if (versionOf(contract) !== sent) push()
    return stop
  })
}

/** Changes with everything about a contract that a stream must not leave out. */
function versionOf(contract: SimulatedContract): string {
  return `${contract.status} ${contract.ended} ${contract.ticks.length}`
}

const sell: Handler = (request, { v3, connection, account }) => {
  const contract = v3.engine.sell(account, {
    appId: connection.appId,
    contractId: request.sell as number,
    floorCents: unitsWithin(request.price as number, account.currency).ceiling
  })
  return {
    body: {
      sell: {
        balance_after: toAmount(account.balanceCents, account.currency),
        contract_id: contract.id,
        reference_id: contract.buyTransaction,
        sold_for: toAmount(contract.sellCents ?? 0, account.currency),
        transaction_id: contract.sellTransaction
      }
    }
  }
}

const cancel: Handler = (request, { v3, account }) => v3.engine.cancel(account, request.cancel as number)

const sellExpired: Handler = (_request, { v3, account }) => ({
  body: { sell_expired: { count: v3.engine.settleEnded(account) } }
})

const contractUpdate: Handler = (request, { v3, account }) => {
  const limits = request.limit_order as { take_profit?: number | null; stop_loss?: number | null }
  const contract = v3.engine.update(account, request.contract_id as number, {
    takeProfit: limits.take_profit,
    stopLoss: limits.stop_loss
  })
  const { take_profit, stop_loss } = presentLimits(contract, { displayed: false })
  return { body: { contract_update: { stop_loss: stop_loss ?? {}, take_profit: take_profit ?? {} } } }
}

/** A request's terms in the engine's format. */
function termsOf(request: CallRequest): PurchaseTerms {
  const limits = (request.limit_order ?? {}) as { take_profit?: number; stop_loss?: number }
  if (request.date_start !== undefined || request.barrier2 !== undefined) {
    throw new SimulatedRefusal('ContractNotOffered', 'Neither a later start nor a second barrier is offered.')
  }
  return {
    type: request.contract_type as string,
    symbol: request.symbol as string,
    currency: request.currency as string,
    amount: request.amount as number | undefined,
    basis: request.basis as PurchaseTerms['basis'],
    duration: request.duration as number | undefined,
    unit: request.duration === undefined ? undefined : ((request.duration_unit as PurchaseTerms['unit']) ?? 's'),
    expiry: request.date_expiry as number | undefined,
    barrier: request.barrier as string | undefined,
    multiplier: request.multiplier as number | undefined,
    takeProfit: limits.take_profit,
    stopLoss: limits.stop_loss,
    cancellation: request.cancellation as string | undefined,
    markupPct: request.app_markup_percentage as number | undefined
  }
}

export const tradingCalls: Record<string, Handler> = {
  proposal,
  buy,
  proposal_open_contract: proposalOpenContract,
  sell,
  cancel,
  sell_expired: sellExpired,
  contract_update: contractUpdate
}

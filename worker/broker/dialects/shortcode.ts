// Shortcodes are the broker's one-line names of contracts. An account's lists show them, so they decide whether a
// contract found there can be the one that an order requested.
import Big from 'big.js'
import type { Contract, ContractTerms } from '../port.ts'

// The symbol may contain underscores and be followed by a number that resembles one of its parts, so the pattern is
// anchored on the start time: the first field from the left that can only be an epoch.
const binary = /^([A-Z]+)_(\w+?)_(\d*\.?\d*(?:E-\d+)?)_(\d{9,11})F?_(\d{1,11})([FT]?)(?:_(S?-?\d+P?)_(S?-?\d+P?))?$/
const multiplier = /^(MULTUP|MULTDOWN)_(\w+)_(\d+\.?\d*)_(\d+)_(\d{9,11})_(\d{9,11})_(\w+?)_(\d+\.?\d*)(?:_N\d+)?$/

/** The terms in a shortcode, or null when it cannot be read. */
export function parseShortcode(shortcode: string): ContractTerms | null {
  if (shortcode.length > 200) return null
  return readMultiplier(shortcode) ?? readBinary(shortcode)
}

function readMultiplier(shortcode: string): ContractTerms | null {
  const found = multiplier.exec(shortcode)
  if (found === null) return null
  const [, contractType, asset, stake, times, start] = found
  return {
    contractType: contractType!,
    asset: asset!,
    durationTicks: null,
    durationSeconds: null,
    barrier: null,
    payout: null,
    stake: stake!,
    multiplier: Number(times),
    startTime: Number(start)
  }
}

function readBinary(shortcode: string): ContractTerms | null {
  const found = binary.exec(shortcode)
  if (found === null) return null
  const [, contractType, asset, payout, start, expiry, unit, barrier] = found
  const startTime = Number(start)
  const inTicks = unit === 'T'
  const durationSeconds = inTicks ? null : Number(expiry) - startTime
  if (durationSeconds !== null && durationSeconds <= 0) return null
  return {
    contractType: contractType!,
    asset: asset!,
    durationTicks: inTicks ? Number(expiry) : null,
    durationSeconds,
    // S0P is the entry price itself: no barrier.
    barrier: barrier === undefined || barrier === 'S0P' ? null : barrier,
    payout: payout === '' ? null : payout!,
    stake: null,
    multiplier: null,
    startTime
  }
}

/** When a contract ends, in epoch seconds; null where that depends on ticks or prices, or cannot be read. */
export function endOf(shortcode: string): number | null {
  const terms = parseShortcode(shortcode)
  return terms?.durationSeconds == null ? null : terms.startTime + terms.durationSeconds
}

/**
 * The terms a contract would be listed with, bought at `startTime` (epoch seconds); the payout comes from the broker.
 */
export function termsOf(contract: Contract, startTime = 0): ContractTerms {
  const common = { asset: contract.asset.toUpperCase(), payout: null, startTime }
  if (contract.kind === 'MULTIPLIER') {
    const { direction, stake, multiplier: times } = contract
    const contractType = direction === 'up' ? 'MULTUP' : 'MULTDOWN'
    return {
      ...common,
      contractType,
      durationTicks: null,
      durationSeconds: null,
      barrier: null,
      stake,
      multiplier: times
    }
  }
  const { contractType, duration, durationUnit, barrier } = contract
  return {
    ...common,
    contractType,
    durationTicks: durationUnit === 't' ? duration : null,
    durationSeconds: secondsOf(contract),
    barrier,
    stake: null,
    multiplier: null
  }
}

/** Whether a listed contract can be this one, judged by its terms alone: not by time, price or whose it is. */
export function matches(listed: ContractTerms, contract: Contract): boolean {
  return differingTerms(listed, contract).length === 0
}

/** In which of its terms a listed contract differs from this one. */
export function differingTerms(listed: ContractTerms, contract: Contract): string[] {
  const wanted = termsOf(contract, listed.startTime)
  const isSame = {
    type: listed.contractType === wanted.contractType,
    asset: listed.asset.toUpperCase() === wanted.asset,
    barrier: sameBarrier(listed.barrier, contract),
    length:
      listed.durationTicks === wanted.durationTicks &&
      sameSeconds(listed.durationSeconds, wanted.durationSeconds, contract),
    multiplier: listed.multiplier === wanted.multiplier,
    stake: wanted.stake === null || (listed.stake !== null && isPrintedAs(listed.stake, wanted.stake))
  }
  return Object.entries(isSame).flatMap(([term, same]) => (same ? [] : [term]))
}

/** Whether a code may print the amount so: with fewer decimals than its currency has, of which two are documented. */
export function isPrintedAs(listed: string, amount: string): boolean {
  const lastDigit = new Big(10).pow(-(listed.split('.')[1]?.length ?? 0))
  return new Big(listed).minus(amount).abs().lt(lastDigit)
}

function sameBarrier(listed: string | null, contract: Contract): boolean {
  if (contract.kind === 'MULTIPLIER' || listed === contract.barrier) return true
  // These have no barrier, and some codes of the broker have a 0 in its place.
  return listed === '0' && ['DIGITEVEN', 'DIGITODD'].includes(contract.contractType)
}

/** How long a contract lasts by its requested terms, in seconds; null where ticks or prices decide. */
export function secondsOf(contract: Contract): number | null {
  if (contract.kind === 'MULTIPLIER' || contract.durationUnit === 't') return null
  return contract.duration * secondsIn[contract.durationUnit]
}

const secondsIn = { s: 1, m: 60, h: 3_600, d: 86_400 } as const

function sameSeconds(listed: number | null, wanted: number | null, contract: Contract): boolean {
  if (listed === null || wanted === null) return listed === wanted
  if (contract.kind !== 'BINARY' || contract.durationUnit !== 'd') return listed === wanted
  // Days end with the trading day, and days without trading do not count: a Friday's one day may end on Tuesday.
  return listed > wanted - secondsIn.d && listed <= wanted + (4 + (contract.duration / 5) * 2) * secondsIn.d
}

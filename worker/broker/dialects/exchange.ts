// The broker's exchange rates and the decimals of its currencies, from its responses.
import Big from 'big.js'
import type { BrokerError } from '../broker-error.ts'
import type { Frame } from '../transport/sockets.ts'
import { bodyOf, integerOf, optionalDecimal } from './reading.ts'

/** Currency → units of it that one unit of the base is worth. */
export function readRates({ exchange_rates: body }: Frame): Map<string, string> {
  const rates = bodyOf(bodyOf(body, 'exchange_rates').rates, 'rates')
  return new Map(
    Object.keys(rates).flatMap(currency => {
      const rate = optionalDecimal(rates, currency)
      return rate === null || new Big(rate).lte(0) ? [] : [[currency, rate]]
    })
  )
}

/** Currency → decimals of its amounts. */
export function readDigits({ website_status: body }: Frame): Map<string, number> {
  const currencies = bodyOf(bodyOf(body, 'website_status').currencies_config, 'currencies_config')
  return new Map(
    Object.entries(currencies).map(([currency, config]) => [
      currency,
      integerOf(bodyOf(config, currency), 'fractional_digits')
    ])
  )
}

/** Whether the broker responded that there are no rates, or that it does not know the call. */
export function hasNoRates({ code, brokerCode }: BrokerError): boolean {
  return code === 'INVALID_CONTRACT' || brokerCode === 'UnrecognisedRequest'
}

// Test keys: what they need of the installation.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices } from '../operation.ts'

/** Throws CONFLICT where no test broker is configured. */
export function requireTestBroker({ testBrokerUrl }: Pick<ApiServices['config'], 'testBrokerUrl'>): void {
  if (testBrokerUrl === undefined)
    throw new ApiError('CONFLICT', 'This installation has no test broker, so it issues no test keys: ask its operator.')
}

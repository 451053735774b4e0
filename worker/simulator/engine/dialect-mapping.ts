// How a dialect maps requests and responses. The handlers of the first dialect run the calls, in its format; another
// dialect translates its requests into that format, and the responses back.

import { toV3Error, type V3Error } from '../v3/errors.ts'
import { calls, complaints } from './requests.ts'
import type { CallRule, Complaints } from './shapes.ts'

export interface DialectMapping {
  calls: Record<string, CallRule>
  complaints: Complaints
  /** A request in the handlers' format. */
  read(call: string, request: Record<string, unknown>): Record<string, unknown>
  /** A body under its field, in the dialect's format. */
  present(field: string, body: unknown): unknown
  /** A refusal in the dialect's codes; `closedCode` is the form a closed market takes on this call. */
  refuse(error: unknown, closedCode: string): V3Error
  /** Streams a connection may have. */
  maxStreams: number
  /** Calls a connection may make in a second, pings among them, and how many of these may be pings; null: any number. */
  perSecond: { calls: number; pings: number } | null
}

/** The first dialect, which needs no translation. */
export const v3Mapping: DialectMapping = {
  calls,
  complaints,
  read: (_call, request) => request,
  present: (_field, body) => body,
  refuse: toV3Error,
  maxStreams: 2_000,
  perSecond: null
}

// GET /v1/requests: the partner's own requests and what came of them.
import { listRequests as list, presentRequest } from '../db/partners/requests.ts'
import { readInstant } from '../schemas/fields/instants.ts'
import { RequestPage, RequestsQuery } from '../schemas/requests.ts'
import type { Operation } from './operation.ts'

/** Shows the log of requests. `operations` returns the names of all operations at the first request, since this is one of them. */
export function requestsOperation(operations: () => string[]): Operation<{ query: RequestsQuery }> {
  let query: typeof RequestsQuery | undefined
  return {
    name: 'listRequests',
    method: 'GET',
    path: '/v1/requests',
    tag: 'Usage',
    summary: 'List requests',
    description:
      "The partner's requests of the last 7 days (REQUEST_DAYS of the installation), newest first, refused ones among them as soon as the key or session was known: what was called, by which key, for which trader, with which result. No bodies, no queries. A request appears within two seconds of its response; under an extreme load, or while the database is away, requests may be missing. A page on which filters passed over many entries may be short or empty and have a `nextCursor` all the same. A `requestId` that the service made, like any UUID of version 7, carries its time: it is found at once, in the hour after it, or anywhere when there is nothing; with another id and very many requests, narrow `from` and `to`, or follow `nextCursor`.",
    auth: 'key',
    scope: 'usage:read',
    get query() {
      query ??= withOperations(operations())
      return query
    },
    response: RequestPage,
    weight: 2,
    errors: [],
    async handle({ partner, query }, { db, requests }) {
      // What this process has not written yet belongs to the response, unless the log's writing fails.
      await requests.flush().catch(() => {})
      const { status, error, operation, traderExternalId: trader, requestId, from, to, limit = 50, cursor } = query
      const page = await list(db, {
        partnerId: partner.partnerId,
        status,
        error,
        operation,
        trader,
        requestId,
        from: from === undefined ? undefined : readInstant(from, '/query/from'),
        to: to === undefined ? undefined : readInstant(to, '/query/to'),
        limit,
        cursor
      })
      return { data: page.requests.map(presentRequest), nextCursor: page.nextCursor }
    }
  }
}

/** A name of no operation is refused, as a wrong code is: its empty page would look like an operation without requests. */
function withOperations(names: string[]): typeof RequestsQuery {
  const { properties } = RequestsQuery
  const operation = { ...properties.operation, enum: names }
  return { ...RequestsQuery, properties: { ...properties, operation } }
}

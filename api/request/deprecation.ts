// Deprecated operations announce it on every response: RFC 9745 `Deprecation`, RFC 8594 `Sunset`, and a link
// to what replaces them. One field of the operation sets it; the description shows the same.

/** The deprecation of an operation. Days are ISO dates, from midnight UTC. */
export interface Deprecated {
  since: string
  /** Its last day is the one before; at least twelve months after `since`. */
  until: string
  /** What to use instead, as a sentence. */
  instead: string
}

/** Least time between the announcement and the end of an operation, in months. */
export const NOTICE_MONTHS = 12

const secondsOf = (day: string): number => Date.parse(`${day}T00:00:00Z`) / 1000

/** The header fields of every response of a deprecated operation; `baseUrl` is the address of the service. */
export function deprecationHeaders({ since, until }: Deprecated, baseUrl: string): Record<string, string> {
  const policy = `${baseUrl}/docs#/section/versions-and-deprecation`
  return {
    Deprecation: `@${secondsOf(since)}`,
    Sunset: new Date(secondsOf(until) * 1000).toUTCString(),
    Link: `<${policy}>; rel="deprecation"; type="text/html", <${policy}>; rel="sunset"; type="text/html"`
  }
}

/** The text in the description of a deprecated operation. */
export function deprecationText({ since, until, instead }: Deprecated): string {
  return `**Deprecated** since ${since}, taken away on ${until}. ${instead}`
}

// How the request log is stored: entries of one partner that arrived within SPAN_MS are one row. Writing a row for each entry, with
// its index entries, cost 22 µs of CPU an entry; packed, an entry costs a line of text.
//
// `shapes` has a line for each distinct (operation, method, status, error, key, path), `data` a line for each entry: the number of
// its shape, milliseconds after the start of the span, duration, request id, trader. Fields are separated by tabs; an empty one is null.
// `ids` are 32-bit hashes of the request ids, in the index of the partner, so that an id is found without reading `data`.

/** A finished request. */
export interface LoggedRequest {
  partnerId: string
  requestId: string
  /** When it arrived, by performance.now() of this process. */
  startedAt: number
  keyId: string | null
  operation: string
  method: string
  path: string
  status: number
  error: string | null
  trader: string | null
  ms: number
}

/** The entries of a group arrived within so many milliseconds. */
export const SPAN_MS = 5000
/** Entries of a group at most: so that its hashes fit into an entry of the index (2,704 bytes). */
export const GROUP = 500

/** Entries of a partner that become one row. */
export interface RequestGroup {
  partnerId: string
  /** When its span began: a multiple of SPAN_MS, by performance.now() of this process. */
  startedAt: number
  /** Milliseconds from there to the last arrival. */
  lastMs: number
  /** The greatest status. */
  worst: number
  ids: number[]
  shapes: Map<string, number>
  data: string
}

/** The span to which an arrival belongs. */
export const spanOf = (startedAt: number): number => Math.floor(startedAt / SPAN_MS) * SPAN_MS

/** A group without entries. */
export function newGroup(partnerId: string, startedAt: number): RequestGroup {
  return { partnerId, startedAt, lastMs: 0, worst: 0, ids: [], shapes: new Map(), data: '' }
}

/** Adds an entry of the group's partner and span. */
export function addEntry(group: RequestGroup, entry: LoggedRequest): void {
  const { operation, method, status, error, keyId, path } = entry
  const text = `${operation}\t${method}\t${status}\t${error ?? ''}\t${keyId ?? ''}\t${path}`
  let shape = group.shapes.get(text)
  if (shape === undefined) {
    shape = group.shapes.size
    group.shapes.set(text, shape)
  }
  const afterMs = Math.floor(entry.startedAt - group.startedAt)
  group.data += `${group.ids.length ? '\n' : ''}${shape}\t${afterMs}\t${entry.ms}\t${entry.requestId}\t${entry.trader ?? ''}`
  group.ids.push(hashOfId(entry.requestId))
  if (afterMs > group.lastMs) group.lastMs = afterMs
  if (status > group.worst) group.worst = status
}

// What has the form of our keys, wherever a caller has put it.
const KEYS = /service_(live|test)_[0-9a-zA-Z_]*/g
// A path is cut here; ours are shorter, but for a trader's id in it.
const MAX_PATH = 256

/** The lines of a group's shapes, as they are stored; keys in paths are not. */
export function shapesOf({ shapes }: RequestGroup): string {
  return [...shapes.keys()].map(shownShape).join('\n')
}

function shownShape(text: string): string {
  const from = text.lastIndexOf('\t') + 1
  const path = text.slice(from)
  const shown = path.includes('service_') ? path.replace(KEYS, 'service_$1_…') : path
  return text.slice(0, from) + shown.slice(0, MAX_PATH)
}

/** FNV-1a of a request id, as a signed number of 32 bits; request_id_hash of the database is the same. */
export function hashOfId(id: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < id.length; index++) hash = Math.imul(hash ^ id.charCodeAt(index), 0x01000193)
  return hash | 0
}

/** A group as it is read. */
export interface StoredGroup {
  partnerId: string
  n: number
  fromAt: Date
  lastAt: Date
  entries: number
  shapes: string
  /** Null where no entry can pass the filter. */
  data: string | null
}

/** A request as it is listed. */
export interface RequestRow {
  partnerId: string
  requestId: string
  at: Date
  operation: string
  method: string
  path: string
  status: number
  error: string | null
  trader: string | null
  keyId: string | null
  ms: number
}

/** Which entries are wanted. */
export interface EntryFilter {
  status?: number | undefined
  error?: string | undefined
  operation?: string | undefined
  trader?: string | undefined
  requestId?: string | undefined
}

/** An entry with its place in the log: `at`, then the number of its group, then its index in it. */
export interface PlacedRow extends RequestRow {
  n: number
  index: number
}

/** The entries of a group that pass the filter, in the order in which they ended. */
export function readGroup({ partnerId, n, fromAt, shapes, data }: StoredGroup, filter: EntryFilter): PlacedRow[] {
  if (data === null) return []
  const known = shapes.split('\n').map(line => readShape(line, filter))
  if (known.every(shape => shape === null)) return []
  const found: PlacedRow[] = []
  for (const [index, line] of data.split('\n').entries()) {
    const shape = known[Number.parseInt(line, 10)]
    if (!shape) continue
    const [, afterMs, ms, requestId = '', trader] = line.split('\t')
    if (filter.requestId !== undefined && requestId !== filter.requestId) continue
    if (filter.trader !== undefined && trader !== filter.trader) continue
    const at = new Date(fromAt.getTime() + Number(afterMs))
    found.push({ ...shape, partnerId, n, index, at, ms: Number(ms), requestId, trader: trader || null })
  }
  return found
}

/** Null when the filter leaves out every entry of that shape. */
function readShape(line: string, filter: EntryFilter) {
  const [operation = '', method = '', status, error, keyId, path = ''] = line.split('\t')
  if (filter.operation !== undefined && operation !== filter.operation) return null
  if (filter.status !== undefined && Number(status) !== filter.status) return null
  if (filter.error !== undefined && error !== filter.error) return null
  return { operation, method, path, status: Number(status), error: error || null, keyId: keyId || null }
}

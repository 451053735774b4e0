// How a hint of the bus (bus.ts) is written: by a process after a commit, or as SQL by the statement that commits.

/** Carries what happened, so that a waiter knows which row to read. */
export interface Hint {
  topic: string
  id: string
  /** What the row held when it was committed, one line. */
  carried?: string
}

// So that a few of them fit into a message.
const MAX_CARRIED = 3000

// A hint that carries something is a line of its own before the bare one: processes of versions that do not know it pass it
// over and wake by the bare one.
const CARRIES = '+'

/** The lines of a hint. */
export function linesOf({ topic, id, carried }: Hint): string {
  const bare = `${topic} ${id}`
  if (!carried || Buffer.byteLength(carried) > MAX_CARRIED || carried.includes('\n')) return bare
  return `${topic}${CARRIES} ${id} ${carried}\n${bare}`
}

/** The same as SQL: `topic` is text, `id` and `carried` are expressions; for one message of its own. */
export const hintOf = (topic: string, id: string, carried: string): string =>
  `case when octet_length(${carried}) <= ${MAX_CARRIED} and strpos(${carried}, E'\\n') = 0
             then '${topic}${CARRIES} ' || ${id} || ' ' || ${carried} || E'\\n' else '' end || '${topic} ' || ${id}`

/**
 * Messages that a statement sends with its commit, as a common table expression: `woken` has a row for all of them, and the
 * statement must read it. `messages` is a select of (channel, payload). Sessions commit one after the other that do so, each
 * until its commit is on disk: for few changes at a time.
 */
export const notifying = (messages: string): string =>
  `sent as materialized (select pg_notify(m.channel, m.payload) from (${messages}) m (channel, payload)),
   woken as materialized (select count(*) as messages from sent)`

// Beyond this, changes are notified after their commit. Commits that wait for each other make groups larger, so such a wait ends by itself.
const FEW_CHANGES = 4

/** Whether a group of so many changes sends its hints itself: where more come together, one message of their own is cheap. */
export const notifiesItself = ({ inStatements }: { inStatements: boolean }, changes: number): boolean =>
  inStatements && changes <= FEW_CHANGES

// SQLSTATE program_limit_exceeded: a session that listens and reads nothing has let PostgreSQL's messages fill their room.
const NO_ROOM = '54000'

/**
 * Runs `write`, which sends its hints when it gets true; once more without that where PostgreSQL has no room for messages: no change
 * fails for want of a hint.
 */
export async function withRoom<T>(notify: boolean, write: (notify: boolean) => Promise<T>): Promise<T> {
  try {
    return await write(notify)
  } catch (error) {
    if (!notify || (error as { code?: unknown }).code !== NO_ROOM) throw error
    return write(false)
  }
}

/** A line of a message; undefined where it is no hint. */
export function readHint(line: string): Hint | undefined {
  const space = line.indexOf(' ')
  if (space < 1) return undefined
  const [topic, id] = [line.slice(0, space), line.slice(space + 1)]
  if (!topic.endsWith(CARRIES)) return { topic, id }
  const end = id.indexOf(' ')
  return end < 1 ? undefined : { topic: topic.slice(0, -1), id: id.slice(0, end), carried: id.slice(end + 1) }
}

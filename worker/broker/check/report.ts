// The report of a check against a real broker: each of our assumptions with what was seen of it. Nothing secret is in it:
// tokens, account ids, addresses and contract ids are cut out of whatever is noted.
import { cut } from '../dialects/reading.ts'

type Verdict = 'CONFIRMED' | 'REFUTED' | 'UNKNOWN'

export interface Result {
  assumption: string
  verdict: Verdict
  /** What was seen, in a few words. */
  seen: string
}

const MAX_SEEN = 300

export class Report {
  readonly results: Result[] = []
  readonly #secrets = new Set<string>()

  /** This text never appears in the report. */
  hide(secret: string | number | undefined): void {
    const text = String(secret ?? '')
    if (text.length >= 4) this.#secrets.add(text)
  }

  /** Notes whether an assumption holds; `undefined` where that is unknown. */
  note(assumption: string, holds: boolean | undefined, seen: unknown = ''): void {
    const verdict = holds === undefined ? 'UNKNOWN' : holds ? 'CONFIRMED' : 'REFUTED'
    this.results.push({ assumption, verdict, seen: this.#clean(seen) })
  }

  /** Runs a part; what goes wrong in it is noted and does not end the check. Returns null then. */
  async part<T>(assumption: string, run: () => Promise<T>): Promise<T | null> {
    try {
      return await run()
    } catch (error) {
      const { brokerCode, message } = error as { brokerCode?: string; message: string }
      this.note(assumption, brokerCode === undefined ? undefined : false, `${brokerCode ?? ''} ${message}`.trim())
      return null
    }
  }

  #clean(seen: unknown): string {
    let text = typeof seen === 'string' ? seen : (JSON.stringify(seen) ?? '')
    for (const secret of this.#secrets) text = text.replaceAll(secret, '…')
    return cut(text.replace(/\b(otp|token)=[^\s&"]+/gi, '$1=…'), MAX_SEEN)
  }
}

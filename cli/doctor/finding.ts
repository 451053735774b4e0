// What a check found.

export interface Finding {
  check: string
  status: 'ok' | 'warn' | 'fail'
  found: string
  /** What to do; null when all is well. */
  advice: string | null
  /** Dialects of the broker that workers reach, of the check of that. */
  reached?: string[]
}

export const ok = (check: string, found: string): Finding => ({ check, status: 'ok', found, advice: null })
/** Works, but not as it should. */
export const warn = (check: string, found: string, advice: string): Finding => ({
  check,
  status: 'warn',
  found,
  advice
})
/** The service cannot work like this. */
export const fail = (check: string, found: string, advice: string): Finding => ({
  check,
  status: 'fail',
  found,
  advice
})

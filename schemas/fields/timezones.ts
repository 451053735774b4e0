// Time zones that requests and commands name.

/** Whether this process knows a time zone of that IANA name; PostgreSQL has a table of its own. */
export function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

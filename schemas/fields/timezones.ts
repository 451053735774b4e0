// Time zones that requests and commands name.

// Names without a slash in the IANA data, of which PostgreSQL and this process mean the same. A list: this process also knows
// abbreviations that IANA does not have, such as IST, for which PostgreSQL has an offset of its own.
const oneWord = new Set(
  `CST6CDT Cuba EST5EDT Egypt Eire GB GB-Eire GMT GMT+0 GMT-0 GMT0 Greenwich Hongkong Iceland Iran Israel Jamaica Japan Kwajalein Libya
   MST7MDT NZ NZ-CHAT Navajo PRC PST8PDT Poland Portugal ROC ROK Singapore Turkey UCT UTC Universal W-SU Zulu`
    .toLowerCase()
    .split(/\s+/)
)

// In the IANA data as well, but PostgreSQL reads an abbreviation first: it keeps CET at one hour in summer, and its setting
// timezone_abbreviations gives EST the offset of Sydney.
const abbreviations = new Set('cet eet est hst met mst wet'.split(' '))

/** What is wrong with the name of a time zone; undefined for one that this process knows. PostgreSQL has a table of its own. */
export function timezoneFault(name: string): string | undefined {
  const lower = name.toLowerCase()
  if (abbreviations.has(lower))
    return 'is an abbreviation, which may have several meanings: name area and place, such as Europe/Berlin'
  const known = (lower.includes('/') || oneWord.has(lower)) && isKnownHere(name)
  return known ? undefined : 'must be an IANA name of a time zone, such as Europe/Berlin'
}

function isKnownHere(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

// What no text of a request may contain: JSON allows it, but PostgreSQL cannot hold it, and half of a surrogate
// pair is no character in UTF-8 either.

const MESSAGE = 'must not contain the character U+0000 or half of a surrogate pair'
// A deeper path is of no use to a reader.
const MAX_PATH = 20
const MAX_KEY = 100

interface NestedValue {
  value: unknown
  key: string
  parent: NestedValue | undefined
}

/** Where `value` holds text that cannot be stored, keys of objects among it; at most `most` places. */
export function unstorableText(value: unknown, root: string, most: number): { path: string; message: string }[] {
  const found: { path: string; message: string }[] = []
  // A stack of our own: a mebibyte of brackets is deeper than that of the language.
  const waiting: NestedValue[] = [{ value, key: root, parent: undefined }]
  for (let place = waiting.pop(); place && found.length < most; place = waiting.pop()) {
    const { value } = place
    if (typeof value === 'string') {
      if (!isStorable(value)) found.push({ path: pathOf(place), message: MESSAGE })
    } else if (Array.isArray(value)) {
      for (let index = value.length - 1; index >= 0; index--)
        waiting.push({ value: value[index], key: String(index), parent: place })
    } else if (value !== null && typeof value === 'object') {
      for (const [key, inner] of Object.entries(value).reverse()) {
        if (isStorable(key)) waiting.push({ value: inner, key, parent: place })
        else found.push({ path: pathOf(place), message: `has a name that ${MESSAGE}` })
      }
    }
  }
  return found
}

function isStorable(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed()
}

// A JSON pointer.
function pathOf(place: NestedValue): string {
  const keys: string[] = []
  let at = place
  for (; at.parent; at = at.parent) keys.push(short(at.key).replaceAll('~', '~0').replaceAll('/', '~1'))
  const shown = keys.reverse().slice(0, MAX_PATH)
  return [at.key, ...shown, ...(keys.length > MAX_PATH ? ['…'] : [])].join('/')
}

const short = (key: string) => (key.length > MAX_KEY ? `${key.slice(0, MAX_KEY).toWellFormed()}…` : key)

// Random numbers by seed. Prices must be the same for the same seed in every use (live, as history, as candles, after a
// restart), so a price is a function of its tick's number and not of the previous price.

const WORD = 4_294_967_296

/** Mixes a 32-bit word. */
function mix(word: number): number {
  let h = word | 0
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** A 32-bit hash of a text and a seed. */
export function hashText(text: string, seed: number): number {
  let h = mix(seed ^ 0x9e3779b9)
  for (let i = 0; i < text.length; i++) h = mix(h ^ text.charCodeAt(i))
  return h
}

/** A 32-bit hash of a key and a whole number of up to 53 bits. */
export function hashNumber(key: number, value: number): number {
  const low = mix(Math.imul(key, 0x9e3779b1) + (value >>> 0) + 0x7f4a7c15)
  return mix(low ^ Math.floor(value / WORD))
}

/** A generator of numbers in [0, 1) that repeats for the same seed. */
export function random(seed: number): () => number {
  let count = 0
  return () => hashNumber(seed, ++count) / WORD
}

// 22 octaves of 1 s ticks span 48 days: long enough for daily candles to wander, bounded for ever.
const OCTAVES = 22

/**
 * A wandering value around 0 at position `n`: octaves of noise whose size grows with the root of their
 * length, as a random walk's does. Neighbouring positions differ by about 1.15 on average.
 */
export function wander(key: number, n: number): number {
  let sum = 0
  let length = 1
  for (let octave = 0; octave < OCTAVES; octave++) {
    const octaveKey = key + Math.imul(octave + 1, 0x9e3779b9)
    const cell = Math.floor(n / length)
    const part = n / length - cell
    const left = hashNumber(octaveKey, cell)
    const right = part === 0 ? left : hashNumber(octaveKey, cell + 1)
    sum += Math.sqrt(length) * (((left + (right - left) * part) / WORD) * 2 - 1)
    length *= 2
  }
  return sum
}

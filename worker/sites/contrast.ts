// Colours that can be read (WCAG 2.2): whatever brand colour a partner picks, text on it and text in it
// reach the contrast of level AA.

type Rgb = [number, number, number]

/** The contrast that WCAG level AA demands of text. */
export const READABLE = 4.5

/** What a page needs of a brand colour. */
interface Palette {
  /** The colour as it was given. */
  brand: string
  /** Text on the brand colour: black or white. */
  onBrand: string
  /** A shade of the brand colour on which onBrand reads even better. */
  brandDeep: string
  /** The brand colour as text on white and near-white, darkened where it must be. */
  brandOnLight: string
  /** The brand colour as text on black and near-black, lightened where it must be. */
  brandOnDark: string
}

// The darkest of the light pages and the lightest of the dark ones, panels included; what can be read on
// these can be read on all of them.
const LIGHT_PAGE = '#ece8e0'
const DARK_PAGE = '#1c2333'

/** The palette of a brand colour, '#rrggbb'. */
export function paletteOf(brand: string): Palette {
  const dark = contrast('#ffffff', brand) >= contrast('#000000', brand)
  return {
    brand: brand.toLowerCase(),
    onBrand: dark ? '#ffffff' : '#000000',
    brandDeep: mix(brand, dark ? '#000000' : '#ffffff', 0.3),
    brandOnLight: until(brand, 0, LIGHT_PAGE),
    brandOnDark: until(brand, 1, DARK_PAGE)
  }
}

/** The contrast of two colours, from 1 to 21. */
export function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}

/** `color`, its lightness moved towards 0 or 1 in small steps until it can be read on `page`. */
function until(color: string, pole: 0 | 1, page: string): string {
  const { hue, saturation, lightness } = toHsl(color)
  for (let step = 0; step < 100; step++) {
    const tried =
      step === 0 ? color.toLowerCase() : fromHsl(hue, saturation, lightness + (pole - lightness) * (step / 100))
    if (contrast(tried, page) >= READABLE) return tried
  }
  return pole === 0 ? '#000000' : '#ffffff'
}

function mix(from: string, to: string, share: number): string {
  const target = parse(to)
  return hex(parse(from).map((value, index) => Math.round(value + ((target[index] as number) - value) * share)))
}

// Hue in degrees, the others from 0 to 1. A colour that is nearly grey keeps little of its saturation, so that
// near-black does not become bright blue.
function toHsl(color: string): { hue: number; saturation: number; lightness: number } {
  const [r, g, b] = parse(color).map(value => value / 255) as Rgb
  const most = Math.max(r, g, b)
  const chroma = most - Math.min(r, g, b)
  const lightness = most - chroma / 2
  if (chroma === 0) return { hue: 0, saturation: 0, lightness }
  const sector = most === r ? ((g - b) / chroma + 6) % 6 : most === g ? (b - r) / chroma + 2 : (r - g) / chroma + 4
  const saturation = (chroma / (1 - Math.abs(2 * lightness - 1))) * Math.min(1, chroma / 0.12)
  return { hue: sector * 60, saturation, lightness }
}

function fromHsl(hue: number, saturation: number, lightness: number): string {
  const reach = saturation * Math.min(lightness, 1 - lightness)
  const channel = (offset: number) => {
    const at = (offset + hue / 30) % 12
    return Math.round(255 * (lightness - reach * Math.max(-1, Math.min(at - 3, 9 - at, 1))))
  }
  return hex([channel(0), channel(8), channel(4)])
}

// Relative luminance as WCAG defines it, from 0 to 1.
function luminance(color: string): number {
  const [r, g, b] = parse(color).map(value => {
    const share = value / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }) as Rgb
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function parse(color: string): Rgb {
  const value = Number.parseInt(color.slice(1), 16)
  return [value >> 16, (value >> 8) & 255, value & 255]
}

function hex(channels: number[]): string {
  return `#${channels.map(value => value.toString(16).padStart(2, '0')).join('')}`
}

// Measures a page from within the browser: what sticks out, what cannot be read, how it is built.
export default () => {
  const parse = color => {
    const [r = 0, g = 0, b = 0, a = 1] = (color.match(/[\d.]+/g) ?? []).map(Number)
    return [r, g, b, a]
  }
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(value => {
      const share = value / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const contrast = (a, b) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x)
    return (light + 0.05) / (dark + 0.05)
  }
  // The colours behind an element: the nearest opaque background, or every stop of a gradient.
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const { backgroundColor, backgroundImage } = getComputedStyle(at)
      const stops = backgroundImage.match(/rgba?\([^)]*\)/g)
      if (stops) return stops.map(parse)
      if (parse(backgroundColor)[3] === 1) return [parse(backgroundColor)]
    }
    return [[255, 255, 255, 1]]
  }
  const unreadable = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement
    if (!element || !walker.currentNode.textContent?.trim() || !element.getClientRects().length) continue
    if (element.closest('svg')) continue
    const { color } = getComputedStyle(element)
    const least = Math.min(...behind(element).map(back => contrast(parse(color), back)))
    if (least < 4.5) unreadable.push(`${walker.currentNode.textContent.trim().slice(0, 30)} ${least.toFixed(2)}`)
  }
  const levels = [...document.querySelectorAll('h1,h2,h3,h4')].map(({ tagName }) => Number(tagName[1]))
  const anchors = [...document.querySelectorAll('a')]
  return {
    overflow: Math.max(0, document.documentElement.scrollWidth - window.innerWidth),
    unreadable,
    structure: {
      h1: document.querySelectorAll('h1').length,
      main: document.querySelectorAll('main').length,
      lang: document.documentElement.lang,
      skipsHeading: levels.some((level, index) => index > 0 && level > levels[index - 1] + 1),
      missingAlt: document.querySelectorAll('img:not([alt])').length,
      nameless: anchors.filter(({ textContent }) => !textContent?.trim()).length
    },
    deadLinks: anchors
      .map(anchor => anchor.getAttribute('href') ?? '')
      .filter(href => href.startsWith('#') && !document.getElementById(href.slice(1)))
  }
}

// Draws the reference from the description. Runs in the browser; everything it loads comes from this service.
import { init } from '/docs/redoc.js'

const response = await fetch('/docs/openapi.json')
if (!response.ok) throw new Error(`The description returned ${response.status}.`)
const description = await response.json()
const page = document.getElementById('redoc')
const sections = readSections(description.info.description)
globalThis.textOfSection = link => sections.get(link.slice(link.indexOf('section/')))
init(description, { disableTelemetry: true }, page)

// Redoc's own samples can be copied, those of the guides cannot; and it draws them anew as one scrolls.
new MutationObserver(offerCopies).observe(page, { childList: true, subtree: true })
offerCopies()

/** The text of each section of the guides by its anchor, for the search. */
function readSections(guides) {
  const slug = title => title.toLowerCase().replaceAll(/[^\w]+/g, '-')
  const texts = new Map()
  let [chapter, anchor] = ['', '']
  let fenced = false
  for (const line of guides.split('\n')) {
    if (line.startsWith('```')) fenced = !fenced
    const [, marks, title] = (!fenced && /^(#{1,2}) (.+)$/.exec(line)) || []
    if (marks === '#') chapter = slug(title)
    if (marks) anchor = `section/${chapter}${marks === '##' ? `/${slug(title)}` : ''}`
    else texts.set(anchor, `${texts.get(anchor) ?? ''}${line.replaceAll(/[`*|]/g, '')} `)
  }
  return texts
}

function offerCopies() {
  for (const pre of page.querySelectorAll('pre[data-language]')) {
    if (pre.parentElement.className === 'copied-from') continue
    const holder = document.createElement('div')
    holder.className = 'copied-from'
    const button = document.createElement('button')
    button.type = 'button'
    button.textContent = 'Copy'
    button.addEventListener('click', () => copy(pre, button))
    pre.replaceWith(holder)
    holder.append(pre, button)
  }
}

async function copy(pre, button) {
  try {
    await navigator.clipboard.writeText(pre.textContent.trimEnd())
    button.textContent = 'Copied'
  } catch {
    // A page in clear text may not write there: the text is marked, for the keys to copy.
    getSelection().selectAllChildren(pre)
    button.textContent = 'Marked'
  }
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 2000)
}

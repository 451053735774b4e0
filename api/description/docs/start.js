// Draws the reference from the description. Runs in the browser; everything it loads comes from this service.
import { init } from '/docs/redoc.js'

const answer = await fetch('/docs/openapi.json')
if (!answer.ok) throw new Error(`The description answered ${answer.status}.`)
const page = document.getElementById('redoc')
init(await answer.json(), { disableTelemetry: true }, page)

// Redoc's own samples can be copied, those of the guides cannot; and it draws them anew as one scrolls.
new MutationObserver(offerCopies).observe(page, { childList: true, subtree: true })
offerCopies()

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

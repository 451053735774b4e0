// Draws the reference from the description. Runs in the browser; everything it loads comes from this service.
import { init } from '/docs/redoc.js'

const answer = await fetch('/docs/openapi.json')
if (!answer.ok) throw new Error(`The description answered ${answer.status}.`)
init(await answer.json(), { disableTelemetry: true }, document.getElementById('redoc'))

// Prints what Spectral's rules for OpenAPI find in a document, one line each; exit code 1 when there is anything, a
// hint included. Its own command line brings twice as much along.
import { readFile } from 'node:fs/promises'
import core from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'

const spectral = new core.Spectral()
// That examples match their schemas is Redocly's rule as well, and a test's (test/description/description.test.ts); here it
// would take nine tenths of the time.
spectral.setRuleset({
  extends: [[rulesets.oas, 'recommended']],
  rules: { 'oas3-valid-media-example': 'off' }
})
const found = await spectral.run(await readFile(process.argv[2], 'utf8'))
for (const { code, message, path } of found) console.error(`${code}: ${message} (${path.join('/')})`)
if (found.length > 0) process.exitCode = 1

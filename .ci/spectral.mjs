// Prints what Spectral's rules for OpenAPI find in a document, one line each; exit code 1 when there is anything, a
// hint included. Its own command line brings twice as much along.
import { readFile } from 'node:fs/promises'
import core from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'

const spectral = new core.Spectral()
spectral.setRuleset({ extends: [[rulesets.oas, 'recommended']] })
const found = await spectral.run(await readFile(process.argv[2], 'utf8'))
for (const { code, message, path } of found) console.error(`${code}: ${message} (${path.join('/')})`)
if (found.length > 0) process.exitCode = 1

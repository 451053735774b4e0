// node .ci/changes.mjs FILE: the changes of the description since the last release that could break a client, from the report of
// Redocly's diff as JSON. Exits with 1 when there is one that is not listed here.
import { readFileSync } from 'node:fs'

/** Changes that no client of the last release can meet, each with the reason. */
const accepted = [
  {
    // Only a request with `"test": true`, which the last release did not have, makes a key with the other prefix.
    pointer: '#/components/schemas/IssuedKey/properties/key/pattern',
    value: '^service_(live|test)_[0-9a-f]{16}_[0-9a-f]{48}$'
  }
]

const { changes } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const breaking = changes.filter(
  ({ impact, revision }) =>
    impact === 'major' &&
    !accepted.some(({ pointer, value }) => revision?.pointer === pointer && revision.value === value)
)
for (const { path, verdicts } of breaking)
  console.error(`${path}\n  ${verdicts.map(({ ruleId, message }) => `${message} (${ruleId})`).join('\n  ')}`)
process.exit(breaking.length > 0 ? 1 : 0)

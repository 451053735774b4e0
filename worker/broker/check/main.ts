// Checks a broker for `operator broker check`, which has confirmed it with the operator, and prints the report.
import { readEnvironment } from '../../../db/platform/process.ts'
import { checkBroker } from './run.ts'
import { readTarget } from './target.ts'

try {
  const { config } = readEnvironment()
  const { target, json, buys } = readTarget(process.argv.slice(2), { config, token: process.env.BROKER_CHECK_TOKEN })
  const results = await checkBroker(target, { buys })
  const count = (verdict: string) => results.filter(each => each.verdict === verdict).length
  const [confirmed, refuted, unknown] = [count('CONFIRMED'), count('REFUTED'), count('UNKNOWN')]
  const document = { dialect: target.dialect, confirmed, refuted, unknown, results }
  const lines = results.map(
    ({ verdict, assumption, seen }) => `${verdict.padEnd(9)}  ${assumption}${seen ? `: ${seen}` : ''}`
  )
  const summary = `${confirmed} confirmed, ${refuted} refuted, ${unknown} not known`
  process.stdout.write(json ? `${JSON.stringify(document)}\n` : `${[...lines, '', summary].join('\n')}\n`)
  process.exit(0)
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

// What guessing passwords comes to. First how many of 1,000 wrong passwords for one e-mail, sent to an api process over
// HTTP, are let through to the hash. Then whether the time of a failed login reveals a known e-mail from an unknown one:
// interleaved samples of both, compared by rank (Mann-Whitney U), which noise of the machine disturbs least.
//   make bench BENCH_ONLY=logins, or node test/bench/logins.ts [samples of each]
// A small p means that the two can be distinguished; the last line does the same to two samples of known e-mails.
import { logInTrader, signUpTrader } from '../../api/traders/traders.ts'
import { call, closeAll, openHarness } from '../support/harness.ts'
import { startApi } from '../support/processes.ts'

const ATTEMPTS = 1000
const AT_A_TIME = 20
const samples = Number(process.argv[2] ?? 300)
// An e-mail is slowed down after ten failures.
const GUESSES = 8

const harness = await openHarness()
const partner = await harness.makePartner()
const known = Array.from({ length: Math.ceil((2 * samples) / GUESSES) }, (_, i) => `known${i}@example.com`)
for (const email of known) await partner.call(signUpTrader, { body: { email, password: 'a good password' } })

/** Sends wrong passwords for one e-mail; returns the number of each outcome. */
async function guess(email: string): Promise<string> {
  const answers: Record<number, number> = {}
  let left = ATTEMPTS
  const headers = { authorization: `Bearer ${partner.key}` }
  const client = async () => {
    while (left-- > 0) {
      const { status } = await call(api.address, logInTrader, { body: { email, password: `wrong ${left}` }, headers })
      answers[status] = (answers[status] ?? 0) + 1
    }
  }
  const before = performance.now()
  await Promise.all(Array.from({ length: AT_A_TIME }, client))
  const { 401: hashed = 0, 429: refused = 0, ...others } = answers
  const rest = Object.keys(others).length > 0 ? `, otherwise ${JSON.stringify(others)}` : ''
  return `${hashed} let through to the hash (401), ${refused} refused (429)${rest}, in ${Math.round(performance.now() - before)} ms`
}

const api = await startApi(harness.env)
console.log(`${ATTEMPTS} wrong passwords for one e-mail, ${AT_A_TIME} at a time:`)
await partner.call(signUpTrader, { body: { email: 'target@example.com', password: 'a good password' } })
console.log(`a known e-mail:    ${await guess('target@example.com')}`)
console.log(`an unknown e-mail: ${await guess('nobody@example.com')}`)

async function timeOf(email: string): Promise<number> {
  const before = performance.now()
  const { status } = await partner.call(logInTrader, { body: { email, password: 'a wrong password' } })
  if (status !== 401) throw new Error(`a wrong login answered ${status}`)
  return performance.now() - before
}

const kinds = {
  known: (i: number) => known[i % known.length] as string,
  unknown: (i: number) => `unknown${Math.floor(i / GUESSES)}@example.com`,
  again: (i: number) => known[(i + samples) % known.length] as string
}
const times = { known: [] as number[], unknown: [] as number[], again: [] as number[] }
for (let i = 0; i < samples; i++) {
  const names = Object.keys(kinds) as (keyof typeof kinds)[]
  // Each kind comes first, second and last equally often.
  for (let j = 0; j < names.length; j++) {
    const name = names[(i + j) % names.length] as keyof typeof kinds
    times[name].push(await timeOf(kinds[name](i)))
  }
}
await closeAll()

const median = (values: number[]) =>
  (values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number).toFixed(2)
for (const [name, values] of Object.entries(times)) console.log(`${name}: median ${median(values)} ms of ${samples}`)
console.log(`known and unknown: p = ${mannWhitney(times.known, times.unknown).toFixed(3)}`)
console.log(`known and known:   p = ${mannWhitney(times.known, times.again).toFixed(3)}`)

/** The two-sided p of the hypothesis that both come from one distribution; normal approximation. */
function mannWhitney(a: number[], b: number[]): number {
  const ranked = [...a.map(value => ({ value, first: true })), ...b.map(value => ({ value, first: false }))]
  ranked.sort((x, y) => x.value - y.value)
  const rankSum = ranked.reduce((sum, { first }, index) => sum + (first ? index + 1 : 0), 0)
  const u = rankSum - (a.length * (a.length + 1)) / 2
  const mean = (a.length * b.length) / 2
  const deviation = Math.sqrt((a.length * b.length * (a.length + b.length + 1)) / 12)
  return 2 * (1 - normal(Math.abs(u - mean) / deviation))
}

/** The normal distribution function, to seven digits (Abramowitz and Stegun 26.2.17). */
function normal(z: number): number {
  const t = 1 / (1 + 0.2316419 * z)
  const tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return 1 - (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * tail
}

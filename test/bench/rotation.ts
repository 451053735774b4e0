// The key of the broker tokens changed while orders run, at more accounts and orders than the test has.
import { rotateUnderLoad } from '../support/rotation.ts'
import { print } from './report.ts'
import { ms, setStage, spread } from './stage.ts'

const SIZES = { accounts: 1000, rate: 200, callers: 40, pauseMs: 5000, processes: 2 }

/** The part `rotation` of the benchmark. */
export async function rotation(): Promise<void> {
  const stage = await setStage(['--tick-ms', '100'])
  const newKey = `b2:${Buffer.alloc(32, 4).toString('base64')}`
  const found = await rotateUnderLoad({ db: stage.db, env: stage.env, key: stage.key, newKey, ...SIZES })
  const { p50, p99 } = spread(found.latencies)
  print(
    `The token key changed under load: ${SIZES.accounts} accounts, up to ${SIZES.rate} orders/s`,
    [
      'orders',
      'exchanges',
      'failed',
      'repeated',
      'order p50 / p99',
      'sealed anew, killed there',
      'then',
      'old key left'
    ],
    [
      [
        String(found.orders),
        String(found.exchanges),
        String(found.failures.length),
        JSON.stringify(found.repeats),
        `${ms(p50)} / ${ms(p99)}`,
        String(found.beforeKill),
        `${found.resealed} in ${ms(found.rotationMs)}`,
        String(found.wrong.length)
      ]
    ]
  )
  for (const failure of found.failures.slice(0, 10)) console.log(failure)
  await stage.close()
}

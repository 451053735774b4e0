// The broker's dialects in tests. A file with the line "// test once for each dialect" is run so by the runner, which
// names the dialect in TEST_DIALECT; run by hand such a file uses v3.
import type { Simulator } from '../../worker/simulator/server.ts'
import type { StreamKind } from '../../worker/simulator/v3/stream.ts'
import type { V3 } from '../../worker/simulator/v3/v3.ts'

export const dialects = ['v3', 'next'] as const
export type DialectName = (typeof dialects)[number]

/** An application id that each dialect takes. */
export const appIds: Record<DialectName, string> = { v3: '7', next: 'app-7Q2' }

/** The dialect of this run of the file. */
export const dialect: DialectName = dialects.find(each => each === process.env.TEST_DIALECT) ?? 'v3'

/** The side of a simulated broker that has the dialect of the run. */
export function frontOf({ v3, next }: Simulator): V3 {
  return dialect === 'v3' ? v3 : next.front
}

/** How many streams of a kind a simulated broker has open for an account. */
export function countStreams(simulator: Simulator, accountId: string, kind: StreamKind): number {
  const connections = [...frontOf(simulator).connections].filter(({ grants }) => grants.has(accountId))
  return connections.reduce((sum, { streams }) => sum + streams.count(kind), 0)
}

/** Where the simulated broker is, for processes of ours that use the dialect `speak` with it. */
export function brokerEnv(
  simulator: Pick<Simulator, 'url' | 'nextUrl' | 'appIdHeader'>,
  speak: DialectName = dialect
): Record<string, string> {
  return {
    BROKER_URL: simulator.url,
    BROKER_NEXT_URL: simulator.nextUrl,
    BROKER_NEXT_APP_HEADER: simulator.appIdHeader,
    // The simulator counts no calls by address, and tests open hundreds of connections in a moment.
    BROKER_NEXT_CALLS: '100000',
    BROKER_DIALECT: speak
  }
}

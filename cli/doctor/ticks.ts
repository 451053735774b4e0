// Live prices: whether a worker forwards the ticks that sockets of the stream subscribe to.

import { listWantedTicks } from '../../db/events/ticks.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, ok, warn } from './finding.ts'

// A worker that is killed is replaced within a few seconds.
const ALONE_SECONDS = 10

export async function checkTicks(db: Db): Promise<Finding[]> {
  const check = 'ticks'
  const wanted = await listWantedTicks(db)
  const alone = wanted.filter(({ worker, forSeconds }) => worker === null && forSeconds > ALONE_SECONDS)
  if (alone.length > 0)
    return alone.map(({ dialect, assets, processes, forSeconds }) =>
      warn(
        check,
        `${assets.length} assets in dialect ${dialect} are wanted by ${processes} api for ${Math.round(forSeconds)} s, and no worker forwards their ticks`,
        'start a worker that has a broker of this dialect; if one runs, see its log'
      )
    )
  const assets = wanted.reduce((sum, each) => sum + each.assets.length, 0)
  return [ok(check, assets === 0 ? 'nobody wants any' : `of ${assets} assets are forwarded`)]
}

// Whether this process may open one more file or connection.
import { close, open } from 'node:fs'
import { devNull } from 'node:os'
import type { Log } from './log.ts'

const LOOK_MS = 5000

/**
 * Logs once that no file descriptor is left, and once that there are some again. Nobody else does: connections to a port are then
 * closed as soon as they are accepted, without an error.
 */
export function watchOpenFiles(log: Log): void {
  let exhausted = false
  const look = () =>
    open(devNull, 'r', (error, descriptor) => {
      const was = exhausted
      exhausted = error?.code === 'EMFILE' || error?.code === 'ENFILE'
      if (!error) close(descriptor, () => {})
      if (exhausted && !was)
        log.error(
          { err: error, advice: 'raise LimitNOFILE of its unit, or `ulimit -n`' },
          'no file descriptor is left: connections are closed as soon as they come, and none can be opened'
        )
      if (was && !exhausted) log.info('there are file descriptors again')
    })
  setInterval(look, LOOK_MS).unref()
}

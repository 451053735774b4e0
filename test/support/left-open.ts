// Loaded into every test process: on SIGUSR2 it reports what keeps the process alive.
import { ChildProcess } from 'node:child_process'
import { Server, Socket } from 'node:net'

process.on('SIGUSR2', () => {
  console.log(`Left open: ${process.getActiveResourcesInfo().join(', ')}`)
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): unknown[] }
  for (const handle of handles.call(process)) {
    if (handle instanceof ChildProcess) console.log(`  process ${handle.pid}: ${handle.spawnargs.join(' ')}`)
    else if (handle instanceof Server) console.log(`  server at ${JSON.stringify(handle.address())}`)
    else if (handle instanceof Socket && handle.remotePort)
      console.log(`  socket from ${handle.localPort} to ${handle.remotePort}, ${handle.readyState}`)
  }
})

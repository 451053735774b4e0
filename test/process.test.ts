// What every process does however it was started: here, ending when its log has no reader.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeAll, onClose } from './harness.ts'

const program = `
  import { openLog } from './db/log.ts'
  import { stopOn } from './db/process.ts'
  const log = openLog({ level: 'info', name: 'test' })
  stopOn(log)
  process.stdin.once('end', () => { log.info('a line under way'); throw new Error('unexpected') }).resume()
`

const ending = suite('a process whose log nobody reads any more')

ending('ends with exit code 1 on an unexpected error', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['pipe', 'pipe', 'ignore']
  })
  onClose(async () => void child.kill('SIGKILL'))
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.end()
  // On the way it failed before, it tried for ever to write its last line.
  const tooLong = setTimeout(() => child.kill('SIGKILL'), 20_000)
  const [code] = (await once(child, 'exit')) as [number | null]
  clearTimeout(tooLong)
  assert.is(code, 1)
})

ending.after(closeAll)
ending.run()

// A way to the database on which every commit is done and its acknowledgement lost.
import { type AddressInfo, connect, createServer } from 'node:net'
import { onClose } from './harness.ts'

/**
 * The address of a way to the database at `url` that breaks once a commit has been done: the first of a connection, or the one after `others`.
 * With `statement` one that contains this text and commits by itself counts, and the way breaks for the first of all connections alone.
 */
export async function loseCommits(
  url: string,
  { others = 0, statement }: { others?: number; statement?: string } = {}
): Promise<string> {
  let lost = false
  const { hostname, port } = new URL(url)
  const server = createServer(client => {
    const database = connect(Number(port), hostname)
    let commits = 0
    for (const [from, to] of [
      [client, database],
      [database, client]
    ] as const) {
      from.on('error', () => to.destroy())
      from.on('close', () => to.destroy())
    }
    client.on('data', data => {
      if (data.includes(statement ?? 'COMMIT;')) commits += 1
      database.write(data)
    })
    database.on('data', data => {
      if (commits > others && !(statement && lost)) {
        lost = true
        database.destroy()
      } else client.write(data)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => void server.close())
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as AddressInfo).port)
  return through.href
}

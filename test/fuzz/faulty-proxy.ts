// A proxy before the service that gets things wrong, one at a time: what the fuzzer must find.
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onClose } from '../support/harness.ts'

export interface Passed {
  status: number
  headers: Record<string, string | string[] | undefined>
  // biome-ignore lint/suspicious/noExplicitAny: whatever the service returned
  body: any
}

export interface Fault {
  /** Changes a request on its way; Authorization is that of the fuzzer. */
  asked?(headers: Record<string, string | string[] | undefined>): void
  /** Changes a response on its way. */
  answered?(answer: Passed, asked: { method: string; path: string }): void
}

interface FaultyProxy {
  address: string
  fault: Fault
}

/** Starts the proxy before `target`; set `fault` to have it go wrong. */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target)
  const proxy: FaultyProxy = { address: '', fault: {} }
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url: path = '/' } = incoming
    const headers = { ...incoming.headers }
    proxy.fault.asked?.(headers)
    let answered = false
    const onward = request({ hostname, port, method, path, headers }, async answer => {
      // A body that is refused need not be sent to its end.
      answered = true
      incoming.unpipe(onward)
      incoming.resume()
      const chunks = await answer.toArray()
      const text = Buffer.concat(chunks).toString()
      const passed: Passed = {
        status: answer.statusCode ?? 0,
        headers: { ...answer.headers },
        body: text && JSON.parse(text)
      }
      proxy.fault.answered?.(passed, { method, path })
      delete passed.headers['content-length']
      delete passed.headers.connection
      for (const [name, value] of Object.entries(passed.headers))
        if (value !== undefined) outgoing.setHeader(name, value)
      outgoing.writeHead(passed.status).end(method === 'HEAD' ? undefined : JSON.stringify(passed.body))
    })
    onward.on('error', () => answered || outgoing.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  proxy.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return proxy
}

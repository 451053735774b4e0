// A request as bytes: sent as it is, whatever it looks like, and reported as a curl that repeats it.
import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { gzipSync } from 'node:zlib'

export interface RawRequest {
  method: string
  /** With the query, as it goes over the raw. */
  path: string
  headers: Record<string, string>
  body?: Buffer
}

export interface Received {
  status: number
  headers: IncomingHttpHeaders
  text: string
  ms: number
}

export interface KeptConnections {
  /** Rejects when there is no response within so many milliseconds. */
  send(raw: RawRequest, withinMs: number): Promise<Received>
  close(): void
}

/** Connections to a server, kept between requests. */
export function openConnections(address: string, connections: number): KeptConnections {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const { hostname, port } = new URL(address)
  const attempt = ({ method, path, headers, body }: RawRequest, withinMs: number) =>
    new Promise<Received>((resolve, reject) => {
      const startedAt = performance.now()
      const length = body ? { 'content-length': String(body.length) } : {}
      const sent = request(
        { agent, hostname, port, method, path, headers: { ...length, ...headers }, timeout: withinMs },
        answer => {
          const chunks: Buffer[] = []
          answer.on('data', chunk => chunks.push(chunk))
          answer.on('error', reject)
          answer.on('end', () =>
            resolve({
              status: answer.statusCode as number,
              headers: answer.headers,
              text: Buffer.concat(chunks).toString(),
              ms: performance.now() - startedAt
            })
          )
        }
      )
      sent.on('error', reject)
      sent.on('timeout', () => sent.destroy(new Error(`no response within ${withinMs} ms`)))
      sent.end(body)
    })
  return {
    // A kept connection may be closed by the server in the moment it is used again.
    send: (raw, withinMs) =>
      attempt(raw, withinMs).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return attempt(raw, withinMs)
        throw error
      }),
    close: () => agent.destroy()
  }
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** A shell command that sends the same bytes. */
export function curlOf(address: string, { method, path, headers, body }: RawRequest): string {
  const words = ['curl -sS -i --path-as-is', method === 'HEAD' ? '--head' : `-X ${method}`]
  words.push(...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`))
  if (body && !('content-type' in headers)) words.push("-H 'Content-Type:'")
  const plain = body?.toString('latin1') ?? ''
  const readable = plain.length < 2000 && /^[\x20-\x7e]*$/.test(plain)
  if (body) words.push(readable ? `--data-binary ${quoted(plain)}` : '--data-binary @-')
  words.push(quoted(`${address}${path}`))
  const unpack = body && !readable ? `base64 -d <<< ${gzipSync(body).toString('base64')} | gunzip | ` : ''
  return unpack + words.join(' ')
}

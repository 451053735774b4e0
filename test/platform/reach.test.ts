// Why a database cannot be reached, in a sentence that names what to correct and holds no password.
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { reachDatabase } from '../../db/postgres/reach.ts'
import { makeCertificate } from '../support/certificate.ts'
import { closeAll, onClose, openTestDatabase } from '../support/harness.ts'

const url = new URL(await openTestDatabase())
const { certFile, keyFile } = await makeCertificate()

/** The port of a server that agrees to TLS as PostgreSQL does, with a certificate of its own. */
async function openTlsServer(): Promise<string> {
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write('S')
      const secured = new TLSSocket(socket, {
        isServer: true,
        cert: readFileSync(certFile),
        key: readFileSync(keyFile)
      })
      secured.on('error', () => {})
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => void server.close())
  return String((server.address() as AddressInfo).port)
}

const reaching = suite('a database that cannot be reached with TLS')

for (const { name, query, port, says } of [
  {
    name: 'since it offers none',
    query: 'sslmode=verify-full',
    port: url.port,
    says: /offers no TLS, and the sslmode in DATABASE_URL requires it/
  },
  {
    name: 'since its authority is unknown',
    query: 'sslmode=verify-full',
    port: await openTlsServer(),
    says: /The certificate of PostgreSQL at 127\.0\.0\.1:\d+\S+ is not accepted \(DEPTH_ZERO_SELF_SIGNED_CERT\): name its authority by sslrootcert/
  },
  {
    name: 'since the file of its authority is missing',
    query: 'sslmode=verify-full&sslrootcert=/nowhere/root.pem',
    port: url.port,
    says: /A file that DATABASE_URL names: cannot open \/nowhere\/root\.pem: no such file or directory \(ENOENT\)/
  }
])
  reaching(`${name} is reported as such`, async () => {
    const there = Object.assign(new URL(url), { port, password: 'not-the-password', search: query })
    const failed = await reachDatabase(there.href).catch((error: unknown) => error)
    assert.instance(failed, Error)
    assert.match((failed as Error).message, says)
    assert.not.match((failed as Error).message, 'not-the-password')
  })

reaching.after(closeAll)
reaching.run()

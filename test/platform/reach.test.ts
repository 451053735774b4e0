// Why a database cannot be reached, in a sentence that names what to correct and holds no password.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openDatabase } from '../../db/postgres/connection.ts'
import { reachDatabase, readMostConnections } from '../../db/postgres/reach.ts'
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

/** The port of a server that admits nobody, as PostgreSQL does where no line of its pg_hba.conf fits. */
async function openClosedServer(): Promise<string> {
  const fields = ['SFATAL', 'C28000', 'Mkein Eintrag', 'RClientAuthentication'].map(field => `${field}\0`).join('')
  const refusal = Buffer.from(`E....${fields}\0`)
  refusal.writeInt32BE(refusal.length - 1, 1)
  const server = createServer((socket: Socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.end(refusal))
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

const refusing = suite('a database that refuses the connection')

const db = openDatabase({ url: url.href, pool: 1, name: 'test' })
onClose(() => db.destroy())
const role = `reach_${randomBytes(4).toString('hex')}`
const database = url.pathname.slice(1)

/** Runs `work` while the server has what `make` says, with the address of the role. */
async function asRole(make: string, work: (there: URL) => Promise<void>): Promise<void> {
  await db.raw(`create role ${role} login password 'role-of-a-test'; ${make}`)
  try {
    await work(Object.assign(new URL(url), { username: role, password: 'role-of-a-test' }))
  } finally {
    await db.raw(
      `alter database ${database} connection limit -1; grant connect on database ${database} to public; drop role ${role}`
    )
  }
}

const sentenceOf = (there: URL) =>
  reachDatabase(there.href).then(
    () => 'reached',
    (error: Error) => error.message
  )

for (const { name, make, says } of [
  {
    name: 'since the role has no connection left',
    make: `alter role ${role} connection limit 0`,
    says: /has no connection left for this role: raise its limit by `alter role … connection limit`, or lower/
  },
  {
    name: 'since the database has no connection left',
    make: `alter database ${database} connection limit 0`,
    says: /has no connection left for this database: raise its limit by `alter database/
  },
  {
    name: 'since the role may not connect to it',
    make: `revoke connect on database ${database} from public`,
    says: /refuses the connection: permission denied for database "\w+" \(42501\)\.$/
  }
])
  refusing(`${name} is reported as such`, () =>
    asRole(make, async there => assert.match(await sentenceOf(there), says))
  )

refusing('since no line of pg_hba.conf fits, or no password is given, is reported as such', async () => {
  const closed = Object.assign(new URL(url), { port: await openClosedServer() })
  assert.match(await sentenceOf(closed), /admits no connection of this user from here: add a line to its pg_hba\.conf/)
  const bare = Object.assign(new URL(url), { password: '' })
  assert.match(await sentenceOf(bare), /requires a password, and DATABASE_URL has none/)
})

refusing('counts as one with fewer connections for the doctor', () =>
  asRole(`alter role ${role} connection limit 4`, async there => {
    const limited = openDatabase({ url: there.href, pool: 1, name: 'test' })
    assert.is(await readMostConnections(limited), 4)
    await db.raw(`alter database ${database} connection limit 3`)
    assert.is(await readMostConnections(limited), 3)
    await limited.destroy()
  })
)

refusing.after(closeAll)
reaching.run()
refusing.run()

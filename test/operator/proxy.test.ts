// The proxy that .deploy/nginx.conf shows, with its addresses exchanged: requests and the stream reach the api through it.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { get } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket } from 'ws'
import { makeCertificate } from '../support/certificate.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'

const PLACES = [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/usr/local/sbin']
const nginx = PLACES.map(folder => join(folder, 'nginx')).find(existsSync)

const proxied = suite('an api behind .deploy/nginx.conf')

async function startProxy(program: string, api: string): Promise<{ port: number; ca: string }> {
  const { cert, certFile, keyFile } = await makeCertificate()
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'))
  await chmod(folder, 0o711)
  const port = await freePort()
  const site = (await readFile('.deploy/nginx.conf', 'utf8'))
    .replaceAll(/\b10\.0\.0\.1[12]:8080\b/g, new URL(api).host)
    .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
    .replace('/etc/ssl/api.example.com/fullchain.pem', certFile)
    .replace('/etc/ssl/private/api.example.com.pem', keyFile)
  assert.match(site, `127.0.0.1:${port}`)
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = temporary.map(name => `${name}_temp_path ${folder}/${name};`).join('\n  ')
  const settings = `daemon off;\npid ${folder}/pid;\nerror_log stderr;\nevents {}\nhttp {\n  access_log off;\n  ${paths}\n${site}}\n`
  await writeFile(join(folder, 'nginx.conf'), settings)
  const child = spawn(program, ['-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let said = ''
  child.stderr.on('data', data => {
    said += data
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  onClose(async () => {
    child.kill()
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  const responds = async () => {
    if (child.exitCode !== null) throw new Error(`nginx has ended: ${said}`)
    return (await status(`https://localhost:${port}/healthz`, { ca: cert }).catch(() => undefined)) !== undefined
  }
  await until('the proxy', responds)
  return { port, ca: cert }
}

/** The status of a response; rejects without one. */
function status(url: string, options: { ca: string; headers?: Record<string, string> }): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, options, response => resolve(response.resume().statusCode)).once('error', reject)
  })
}

proxied('takes requests, and opens the stream', async () => {
  if (nginx === undefined) return console.log('SKIPPED: the proxy example: there is no nginx here')
  const { address, makePartner } = await openHarness({ env: { BASE_URL: 'https://localhost', TRUST_PROXY: '1' } })
  const { port, ca } = await startProxy(nginx, address)
  const { key } = await makePartner()
  const headers = { authorization: `Bearer ${key}` }
  assert.is(await status(`https://localhost:${port}/v1/me`, { ca, headers }), 200)
  const socket = new WebSocket(`wss://localhost:${port}/v1/stream`, { headers, ca })
  onClose(async () => socket.terminate())
  const first = await new Promise((resolve, reject) => {
    socket.once('message', data => resolve(JSON.parse(String(data)).type))
    socket.once('error', reject)
  })
  assert.is(first, 'hello')
})

proxied.after(closeAll)
proxied.run()

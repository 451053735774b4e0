// A Redis of a test's own, on a free port. Where no redis-server is installed the test is skipped with a note.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { onClose, until } from './harness.ts'

export interface TestRedis {
  url: string
  stop(): Promise<void>
  start(): Promise<void>
}

/** Starts a Redis; undefined, with a loud line, where there is none. */
export async function startRedis(): Promise<TestRedis | undefined> {
  if (spawnSync('redis-server', ['--version']).status !== 0) {
    console.log('SKIPPED: redis-server is not installed; run apt-get install redis-server')
    return undefined
  }
  const port = await freePort()
  const dir = mkdtempSync(join(tmpdir(), 'service-redis-'))
  const url = `redis://127.0.0.1:${port}`
  let child: ChildProcess | undefined
  const redis: TestRedis = {
    url,
    async start() {
      child = spawn(
        'redis-server',
        ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no'],
        { stdio: 'ignore' }
      )
      const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null })
      client.on('error', () => {})
      await until('Redis', async () => {
        if (client.status !== 'ready') await client.connect().catch(() => {})
        return (await client.ping().catch(() => '')) === 'PONG'
      })
      client.disconnect()
    },
    async stop() {
      const running = child
      child = undefined
      if (!running || running.exitCode !== null) return
      running.kill('SIGKILL')
      await once(running, 'exit')
    }
  }
  await redis.start()
  onClose(async () => {
    await redis.stop()
    rmSync(dir, { recursive: true, force: true })
  })
  return redis
}

/** An address that leads to one Redis, and after `moveTo` to another: who is connected stays where it is. */
export async function startMovingAddress(first: TestRedis): Promise<{ url: string; moveTo(next: TestRedis): void }> {
  let port = Number(new URL(first.url).port)
  const sockets = new Set<Socket>()
  const server = createServer(near => {
    const far = connect(port, '127.0.0.1')
    for (const [socket, other] of [
      [near, far],
      [far, near]
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onClose(async () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    moveTo(next) {
      port = Number(new URL(next.url).port)
    }
  }
}

// A client of the stream for tests: every frame is checked against its schema, and may be waited for.
import { Redis } from 'ioredis'
import { WebSocket } from 'ws'
import { violations } from '../../schemas/checks/validator.ts'
import { fromService, TicketEventMessage } from '../../schemas/stream.ts'
import { type Harness, onClose, until } from '../support/harness.ts'
import type { TestRedis } from '../support/redis.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
export type Message = { type: string; [name: string]: any }

export interface Client {
  ws: WebSocket
  /** Frames so far. */
  messages: Message[]
  send(message: object | string): void
  /** The first message not yet taken that fits; waits for it. */
  take(type: string, fits?: (message: Message) => boolean): Promise<Message>
  /** Resolves with the close code. */
  closed: Promise<number>
  /** Resolves with what the close code came with. */
  reason: Promise<string>
  close(): void
}

/** Opens a socket; rejects with the status and the envelope of a refusal. */
export async function openClient(
  address: string,
  {
    key,
    ticket,
    protocols = ticket ? ['service.v1', `ticket.${ticket}`] : []
  }: { key?: string; ticket?: string; protocols?: string[] }
): Promise<Client> {
  const ws = new WebSocket(`${address.replace(/^http/, 'ws')}/v1/stream`, protocols, {
    headers: key ? { authorization: `Bearer ${key}` } : {}
  })
  const messages: Message[] = []
  const waiting: { fits: (message: Message) => boolean; resolve: (message: Message) => void }[] = []
  const taken = new Set<Message>()
  ws.on('message', data => {
    const message = JSON.parse(String(data)) as Message
    const schema = ticket && message.type === 'event' ? TicketEventMessage : fromService[message.type]
    const broken = schema ? violations(schema, structuredClone(message)) : [{ path: 'type', message: message.type }]
    if (broken.length > 0)
      throw new Error(`${JSON.stringify(message).slice(0, 400)}: ${JSON.stringify(broken).slice(0, 800)}`)
    messages.push(message)
    const index = waiting.findIndex(({ fits }) => fits(message))
    if (index < 0) return
    taken.add(message)
    waiting.splice(index, 1)[0]?.resolve(message)
  })
  const ended = new Promise<{ code: number; reason: string }>(resolve =>
    ws.once('close', (code, reason) => resolve({ code, reason: String(reason) }))
  )
  const closed = ended.then(({ code }) => code)
  onClose(async () => ws.terminate())
  await new Promise<void>((resolve, reject) => {
    ws.once('open', () => resolve())
    ws.once('error', reject)
    ws.once('unexpected-response', async (_request, response) => {
      let text = ''
      for await (const part of response) text += part
      reject(
        Object.assign(new Error(`${response.statusCode} ${text}`), {
          status: response.statusCode,
          body: JSON.parse(text || 'null')
        })
      )
    })
  })
  return {
    ws,
    messages,
    closed,
    reason: ended.then(({ reason }) => reason),
    send: message => ws.send(typeof message === 'string' ? message : JSON.stringify(message)),
    async take(type, fits = () => true) {
      const matches = (message: Message) => message.type === type && !taken.has(message) && fits(message)
      const known = messages.find(matches)
      if (known) {
        taken.add(known)
        return known
      }
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new Error(`no ${type} came; the last: ${JSON.stringify(messages.slice(-3)).slice(0, 900)}`)),
          60_000
        )
      })
      const came = new Promise<Message>(resolve => waiting.push({ fits: matches, resolve }))
      return Promise.race([
        came,
        late,
        closed.then(code => Promise.reject(new Error(`closed with ${code} before ${type}`)))
      ]).finally(() => clearTimeout(timer))
    },
    close: () => ws.close()
  }
}

/** The refusal of an upgrade. */
export async function refusedUpgrade(
  ...args: Parameters<typeof openClient>
): Promise<{ status: number; body: Message }> {
  const opened = await openClient(...args).catch((error: { status: number; body: Message }) => error)
  if ('ws' in opened) throw new Error('the upgrade was accepted')
  return opened
}

/** Subscribes to events, from now on unless the message names a cursor. */
export async function subscribe(client: Client, message: object = {}): Promise<Message> {
  client.send({ type: 'subscribe', id: 's', channel: 'events', ...message })
  return client.take('subscribed')
}

/** Opens a socket that its key has a place for, and keeps it; undefined where the key has none. */
export async function openWithPlace(...args: Parameters<typeof openClient>): Promise<Client | undefined> {
  const client = await openClient(...args)
  try {
    await client.take('hello')
  } catch {
    return undefined
  }
  // A socket without a subscription is closed soon, and another one then has its place.
  await subscribe(client)
  return client
}

/** Opens a socket beyond the places of its key; returns the reason it is closed with. */
export async function openSurplus(...args: Parameters<typeof openClient>): Promise<string> {
  const client = await openClient(...args)
  const [code, reason] = [await client.closed, await client.reason]
  if (code !== 4429 || client.messages.length > 0)
    throw new Error(`closed with ${code} after ${client.messages.length}`)
  return reason
}

/**
 * Opens a socket at each address for a key of its own, which Redis has counted all of. A process to which Redis does not respond
 * within half a second counts for itself, as happens on a busy machine: then it is tried with another key.
 */
export async function openCounted(
  { makePartner }: Harness,
  { url }: TestRedis,
  addresses: string[]
): Promise<{ key: string; clients: (Client | undefined)[] }> {
  const redis = new Redis(url)
  try {
    return await until('sockets that Redis has counted', async () => {
      const { key, keyId } = await makePartner({ plan: 'LAUNCH' })
      const clients = await Promise.all(addresses.map(address => openWithPlace(address, { key })))
      if ((await redis.zcard(`svc_held:stream:${keyId}`)) === addresses.length) return { key, clients }
      for (const client of clients) client?.close()
      return undefined
    })
  } finally {
    redis.disconnect()
  }
}

/** As `openSurplus`; opened again where the process counted for itself. */
export const openSurplusCounted = (...args: Parameters<typeof openClient>): Promise<string> =>
  until('a socket beyond the places of its key', () => openSurplus(...args).catch(() => undefined))

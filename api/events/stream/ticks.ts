// Live prices in this process: each tick that a worker forwards goes to every socket that wants its asset. Sockets with the same
// assets share a frame, and ticks of the same moment share it too. A socket that reads slowly gets the newest tick of each asset
// once it has room again.

import { tickChannelOf } from '../../../db/events/ticks.ts'
import { countDelivered } from '../../../db/platform/metrics.ts'
import type { ApiServices } from '../../operation.ts'
import { TickWants } from './tick-wants.ts'

// Sockets served before the process does other work.
const SOCKETS_AT_ONCE = 250
// Ticks that wait for their turn beyond this are conflated: the process is too busy to send each.
const MOST_WAITING = 5000
// A worker of an earlier term is ignored for so long after the last tick; a database that was restored may count from less.
const TERM_MS = 10_000
const MOST_APPLICATIONS = 20

/** The socket, as far as ticks need it. */
export interface TickOutlet {
  /** Sends a text frame. */
  sendTicks(frame: Buffer): void
  /** Whether ticks should wait: `drained` of the member is to be called when there is room. */
  readonly crowded: boolean
  /** The broker has no ticks of an asset that this socket wants; called once a second. */
  unknownAsset(asset: string): void
}

/** A socket's part in the ticks. */
export interface TickMember {
  /** Sets the wanted assets; those that are new are followed by their newest known tick. */
  want(assets: ReadonlySet<string>): void
  /** The socket has room again. */
  drained(): void
  end(): void
}

interface ForwardedTick {
  asset: string
  epoch: number
  /** The term of the lease under which it was forwarded. */
  term: number
  /** Counts the ticks of this process. */
  serial: number
  /** JSON of the tick. */
  json: string
}

interface Group {
  key: string
  assets: ReadonlySet<string>
  members: Set<Member>
}

interface Member {
  outlet: TickOutlet
  appId: string
  group: Group | null
  /** Everything up to this serial was sent, or is late. */
  upTo: number
  /** Assets whose newest tick is sent once there is room. */
  late: Set<string>
}

type TicksServices = Pick<ApiServices, 'db' | 'bus' | 'log'>

/** The ticks of all dialects; nothing is wanted of the workers until a socket wants some. */
export class Ticks {
  readonly #services: TicksServices
  readonly #boards = new Map<string, Board>()

  constructor(services: TicksServices) {
    this.#services = services
  }

  /** A member for a socket of a partner, which wants nothing yet. */
  join(partner: { brokerDialect: string; brokerAppId: string }, outlet: TickOutlet): TickMember {
    const { brokerDialect: dialect, brokerAppId: appId } = partner
    const board = this.#boards.get(dialect) ?? new Board(this.#services, dialect)
    this.#boards.set(dialect, board)
    const member: Member = { outlet, appId, group: null, upTo: 0, late: new Set() }
    return {
      want: assets => board.move(member, assets),
      drained: () => board.catchUp(member),
      end: () => board.move(member, new Set())
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#boards.values()].map(board => board.close()))
  }
}

class Board {
  readonly #services: TicksServices
  readonly #dialect: string
  readonly #wants: TickWants
  readonly #groups = new Map<string, Group>()
  readonly #byAsset = new Map<string, Set<Group>>()
  readonly #members = new Map<string, number>()
  readonly #applications = new Map<string, number>()
  readonly #newest = new Map<string, ForwardedTick>()
  /** Ticks not yet sent to everybody, oldest first. */
  #waiting: ForwardedTick[] = []
  #serial = 0
  #flushing = false
  #delivered = 0
  #term = 0
  #termAt = 0
  #listening: Promise<() => void> | null = null

  constructor(services: TicksServices, dialect: string) {
    this.#services = services
    this.#dialect = dialect
    this.#wants = new TickWants(services, {
      dialect,
      want: () => ({
        appIds: [...this.#applications.keys()].slice(0, MOST_APPLICATIONS),
        assets: [...this.#members.keys()].sort()
      })
    })
  }

  async close(): Promise<void> {
    await this.#wants.close()
    ;(await this.#listening)?.()
  }

  /** Gives a member other assets: it has everything of those before, and of the new ones the newest. */
  move(member: Member, assets: ReadonlySet<string>): void {
    const before = member.group
    const key = keyOf(assets)
    if (key === (before?.key ?? '')) return
    this.#settle(member)
    for (const asset of member.late) if (!assets.has(asset)) member.late.delete(asset)
    // Entered before it leaves: what is wanted all along stays known.
    member.group = assets.size > 0 ? this.#enter(member, { key, assets }) : null
    if (before) this.#leave(member, before)
    const added = [...assets].filter(asset => !before?.assets.has(asset))
    this.#send(
      member,
      added.flatMap(asset => this.#newest.get(asset) ?? [])
    )
    this.#wants.changed()
  }

  catchUp(member: Member): void {
    if (member.late.size === 0 || member.outlet.crowded) return
    const { group } = member
    const missed = group
      ? this.#waiting.filter(({ serial, asset }) => serial > member.upTo && group.assets.has(asset))
      : []
    const assets = new Set([...member.late, ...missed.map(({ asset }) => asset)])
    member.upTo = this.#serial
    member.late.clear()
    this.#send(
      member,
      [...assets].flatMap(asset => this.#newest.get(asset) ?? [])
    )
  }

  #enter(member: Member, { key, assets }: Pick<Group, 'key' | 'assets'>): Group {
    let group = this.#groups.get(key)
    if (!group) {
      group = { key, assets: new Set(assets), members: new Set() }
      this.#groups.set(key, group)
      for (const asset of assets) {
        const groups = this.#byAsset.get(asset) ?? new Set()
        this.#byAsset.set(asset, groups.add(group))
      }
    }
    group.members.add(member)
    for (const asset of assets) count(this.#members, asset, 1)
    count(this.#applications, member.appId, 1)
    this.#listening ??= this.#listen()
    return group
  }

  #leave(member: Member, group: Group): void {
    group.members.delete(member)
    if (group.members.size === 0) {
      this.#groups.delete(group.key)
      for (const asset of group.assets) {
        const groups = this.#byAsset.get(asset)
        groups?.delete(group)
        if (groups?.size === 0) this.#byAsset.delete(asset)
      }
    }
    for (const asset of group.assets) {
      count(this.#members, asset, -1)
      // What is not wanted is not kept up to date.
      if (!this.#members.has(asset)) this.#newest.delete(asset)
    }
    count(this.#applications, member.appId, -1)
  }

  /** Listens for as long as the process runs: a channel without ticks costs nothing. */
  #listen(): Promise<() => void> {
    return this.#services.bus.listen(tickChannelOf(this.#dialect), ({ topic, id }) => this.#receive(topic, id))
  }

  #receive(topic: string, message: string): void {
    const [termText = '', asset = '', epochText = '', price = ''] = message.split(' ')
    const term = Number(termText)
    const now = performance.now()
    if (term < this.#term && now - this.#termAt < TERM_MS) return
    this.#term = term
    this.#termAt = now
    const groups = this.#byAsset.get(asset)
    if (!groups) return
    if (topic === 'unknown') {
      for (const { members } of groups) for (const { outlet } of members) outlet.unknownAsset(asset)
      return
    }
    const epoch = Number(epochText)
    const newest = this.#newest.get(asset)
    // A worker that takes over begins with the tick that the one before may have sent last.
    if (newest && (epoch < newest.epoch || (term !== newest.term && epoch === newest.epoch))) return
    this.#serial += 1
    const tick = {
      asset,
      epoch,
      term,
      serial: this.#serial,
      json: `{"asset":${JSON.stringify(asset)},"epoch":${epoch},"price":${price}}`
    }
    this.#newest.set(asset, tick)
    if (this.#waiting.length >= MOST_WAITING) this.#waiting = conflated(this.#waiting)
    this.#waiting.push(tick)
    if (!this.#flushing) {
      this.#flushing = true
      setImmediate(() => this.#flush())
    }
  }

  #flush(): void {
    this.#flushAll()
      .catch((error: unknown) => this.#services.log.error({ err: error }, 'ticks could not be sent'))
      .finally(() => {
        this.#flushing = false
      })
  }

  async #flushAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const ticks = this.#waiting
      const [first, upTo] = [ticks[0]?.serial ?? 0, this.#serial]
      const ofGroup = new Map<Group, ForwardedTick[]>()
      for (const tick of ticks)
        for (const group of this.#byAsset.get(tick.asset) ?? []) {
          const list = ofGroup.get(group)
          if (list) list.push(tick)
          else ofGroup.set(group, [tick])
        }
      let served = 0
      for (const [group, some] of ofGroup) {
        const frame = frameOf(some)
        for (const member of [...group.members]) {
          // A member that changed its assets meanwhile has received the waiting ticks already.
          if (member.group !== group || member.upTo >= upTo) continue
          if (member.upTo < first) this.#deliver(member, some, frame)
          else
            this.#send(
              member,
              some.filter(({ serial }) => serial > member.upTo)
            )
          member.upTo = upTo
          served += 1
          if (served % SOCKETS_AT_ONCE === 0) await new Promise(resolve => setImmediate(resolve))
        }
      }
      this.#waiting = this.#waiting.filter(({ serial }) => serial > upTo)
    }
    countDelivered(this.#delivered)
    this.#delivered = 0
  }

  /** Sends a member what waits for it. */
  #settle(member: Member): void {
    const { group } = member
    if (group)
      this.#send(
        member,
        this.#waiting.filter(({ serial, asset }) => serial > member.upTo && group.assets.has(asset))
      )
    member.upTo = this.#serial
  }

  #send(member: Member, ticks: readonly ForwardedTick[]): void {
    if (ticks.length > 0) this.#deliver(member, ticks, frameOf(ticks))
  }

  #deliver({ outlet, late }: Member, ticks: readonly ForwardedTick[], frame: Buffer): void {
    if (outlet.crowded) {
      for (const { asset } of ticks) late.add(asset)
      return
    }
    outlet.sendTicks(frame)
    this.#delivered += ticks.length
  }
}

function frameOf(ticks: readonly ForwardedTick[]): Buffer {
  return Buffer.from(`{"type":"ticks","data":[${ticks.map(({ json }) => json).join(',')}]}`)
}

const keyOf = (assets: ReadonlySet<string>): string => [...assets].sort().join(' ')

/** The newest of each asset, in their order. */
function conflated(ticks: readonly ForwardedTick[]): ForwardedTick[] {
  return [...new Map(ticks.map(tick => [tick.asset, tick])).values()].sort((a, b) => a.serial - b.serial)
}

function count(counts: Map<string, number>, name: string, step: number): void {
  const next = (counts.get(name) ?? 0) + step
  if (next > 0) counts.set(name, next)
  else counts.delete(name)
}

// The simulated broker of a data directory. One run starts it, others beside it use the same one, since their
// workers share the orders; when the first run ends, another goes on with it, at the same address and with the
// same contracts, which a journal keeps.
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { acquire } from '../../db/embedded/lock.ts'
import { CommandRefusal } from '../terminal/refusals.ts'
import { type Child, ChildEnded, startChild } from './children.ts'

const JOIN_MS = 20_000
const LOOK_MS = 200
const PORT_TRIES = 10

/** The facts the simulated broker announces at its start. */
interface Announced {
  url: string
  /** Where it is controlled over HTTP. */
  control?: string
  /** Its newer dialect, and the header that names the application there. */
  nextUrl?: string
  appIdHeader?: string
}

interface SharedBroker {
  /** The settings under which our processes find it. */
  env: Record<string, string>
  url: string
  /** Where it is controlled over HTTP; unknown of one that an older version started. */
  control: string | undefined
  /** Whether this run started it, or found it running. */
  own: boolean
  /** Resolves with a sentence when there is no broker any more. */
  lost: Promise<string>
  /** Releases it; another run may continue to run it. */
  close(): Promise<void>
}

interface BrokerOptions {
  dataDir: string
  tickMs: number
  env: NodeJS.ProcessEnv
  print(line: string): void
}

interface HeldBroker {
  announced: Announced
  child: Child
  unlock(): Promise<void>
}

/** Starts the simulated broker of the data directory, or joins the one running there. */
export async function openSharedBroker(options: BrokerOptions): Promise<SharedBroker> {
  const dir = resolve(options.dataDir, 'broker')
  await mkdir(dir, { recursive: true })
  const left = new AbortController()
  const lost = Promise.withResolvers<string>()
  const watch = (held: HeldBroker) => void held.child.ended.then(lost.resolve)

  let held = await tryHold(dir, options)
  const own = held !== undefined
  if (held) watch(held)
  const announced = held?.announced ?? (await joinRunning(dir))
  const { url, control, nextUrl, appIdHeader } = announced
  const takeOver = async () => {
    while (!held && !left.signal.aborted) {
      await sleep(LOOK_MS)
      if (left.signal.aborted) return
      held = await tryHold(dir, options, portOf(url))
    }
    if (!held) return
    options.print('the run that had it has ended; going on with it here')
    watch(held)
  }
  const taking = own ? Promise.resolve() : takeOver()
  taking.catch(error => lost.resolve(error instanceof Error ? error.message : String(error)))
  return {
    url,
    control,
    env: {
      BROKER_URL: url,
      TEST_BROKER_URL: url,
      ...(nextUrl && appIdHeader ? { BROKER_NEXT_URL: nextUrl, BROKER_NEXT_APP_HEADER: appIdHeader } : {})
    },
    own,
    lost: lost.promise,
    async close() {
      left.abort()
      await taking.catch(() => {}) // `lost` reports it.
      await held?.child.stop()
      await held?.unlock()
    }
  }
}

/** Takes the broker's lock and starts it; undefined when another run has it. At `mustBe`, or where it was last. */
async function tryHold(dir: string, options: BrokerOptions, mustBe?: number): Promise<HeldBroker | undefined> {
  const unlock = await acquire(join(dir, 'lock'))
  if (!unlock) return undefined
  try {
    const last = await lastAnnounced(dir)
    const port = mustBe ?? (last ? portOf(last.url) : 0)
    const { child, announced } = await launch(dir, port, mustBe !== undefined, options)
    const draft = join(dir, `announced.${process.pid}`)
    await writeFile(draft, JSON.stringify(announced))
    await rename(draft, join(dir, 'announced'))
    return { child, announced, unlock }
  } catch (error) {
    await unlock()
    throw error
  }
}

async function launch(
  dir: string,
  port: number,
  fixed: boolean,
  { tickMs, env, print }: BrokerOptions
): Promise<{ child: Child; announced: Announced }> {
  for (let tries = 1; ; tries++) {
    // One that just ended may hold the port for a moment; if it stays taken, use another where no client has the
    // address yet.
    const use = tries > PORT_TRIES / 2 && !fixed ? 0 : port
    const child = startChild({
      name: 'broker',
      file: 'worker/simulator/main.ts',
      args: ['--port', String(use), '--tick-ms', String(tickMs), '--journal', join(dir, 'journal'), '--magic'],
      env,
      print,
      readyLine: line => (line.startsWith('{"url"') ? { address: line } : undefined)
    })
    try {
      const { address } = await child.ready
      return { child, announced: JSON.parse(address as string) as Announced }
    } catch (error) {
      if (!(error instanceof ChildEnded) || tries >= PORT_TRIES || use === 0) throw error
      await sleep(LOOK_MS)
    }
  }
}

/** Waits until the run that holds the broker has it listening. */
async function joinRunning(dir: string): Promise<Announced> {
  const deadline = Date.now() + JOIN_MS
  while (Date.now() < deadline) {
    const announced = await lastAnnounced(dir)
    if (announced && (await listens(portOf(announced.url)))) return announced
    await sleep(LOOK_MS)
  }
  throw new CommandRefusal(`Another run has the simulated broker of ${dir} and did not get it to listen within 20 s.`)
}

async function lastAnnounced(dir: string): Promise<Announced | undefined> {
  try {
    return JSON.parse(await readFile(join(dir, 'announced'), 'utf8')) as Announced
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}

function listens(port: number): Promise<boolean> {
  return new Promise(done => {
    const socket = connect(port, '127.0.0.1')
    const give = (yes: boolean) => {
      socket.destroy()
      done(yes)
    }
    socket.setTimeout(2000, () => give(false))
    socket.once('connect', () => give(true))
    socket.once('error', () => give(false))
  })
}

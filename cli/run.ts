// operator run: everything on this machine in one go. The database that comes with the project, a simulated
// broker, one api and one worker, and a first order to show that it works; until Ctrl-C.
import type { Command } from 'commander'
import pc from 'picocolors'
import { operatorName } from '../db/platform/audit.ts'
import { readEnvFile } from '../db/platform/process.ts'
import { locateDatabase, openStore } from '../db/platform/store.ts'
import { migrate } from '../db/postgres/migrate.ts'
import { reachDatabase } from '../db/postgres/reach.ts'
import { RunOptions } from '../schemas/commands/operator.ts'
import { type Config, ownAddress, reachedAt } from '../schemas/config/config.ts'
import type { Order } from '../schemas/orders.ts'
import { openSharedBroker } from './run/broker.ts'
import { type Child, ChildEnded, startChild } from './run/children.ts'
import { curlOf, type Demo, openDemo, placeDemoOrder } from './run/demo.ts'
import { doctorLine, operatorLines, placeOf, portOf, settingsToRepeat, workerLine } from './run/others.ts'
import { openPrinter, type Printer } from './run/output.ts'
import { choosePort } from './run/port.ts'
import { type Context, withoutStore } from './terminal/context.ts'
import { examples } from './terminal/examples.ts'
import { lines, print } from './terminal/output.ts'
import { CommandRefusal } from './terminal/refusals.ts'

const PORT_TRIES = 3

export function addRun(program: Command): void {
  program
    .command('run')
    .description('Run everything on this machine: database, simulated broker, api and worker; place a first order')
    .option('--once', 'stop after the first order; the exit code shows whether it was placed')
    .option('--tick-ms <ms>', 'interval of the simulated ticks', '200')
    .addHelpText('after', examples('run', 'run --tick-ms 1000', 'run --once --json'))
    .action(withoutStore(run, { input: RunOptions }))
}

interface RunContext {
  context: Context
  options: RunOptions
  print: Printer
  /** Has `close` called when the run ends; the last one first. */
  opened(close: () => Promise<unknown>): void
  /** Ends the run as soon as this resolves with what went wrong. */
  watch(lost: Promise<string>): void
  /** Whether it is being stopped: nothing is started any more. */
  stopping(): boolean
}

async function run(context: Context, options: RunOptions): Promise<undefined> {
  const { config, json } = context
  if (config.tls || config.baseUrl.startsWith('https:'))
    throw new CommandRefusal(
      'This runs plain HTTP on one machine: unset TLS_CERT, TLS_KEY and an https BASE_URL, or start api and worker by themselves.'
    )
  const closes: (() => Promise<unknown>)[] = []
  const lost = Promise.withResolvers<string>()
  let stopping = false
  const running: RunContext = {
    context,
    options,
    print: openPrinter(json ? process.stderr : process.stdout),
    opened: close => closes.push(close),
    watch: sign => void sign.then(lost.resolve),
    stopping: () => stopping
  }
  const close = async () => {
    for (let last = closes.pop(); last; last = closes.pop()) await last()
  }
  const requested = stopRequested(() => stopping)
  const started = start(running)
  const work = started.then(() => (options.once ? undefined : requested))
  try {
    const how = await Promise.race([work, requested, lost.promise])
    if (how) throw new ChildEnded(how)
  } catch (error) {
    if (!(error instanceof ChildEnded)) throw error
    process.stderr.write(`${error.message}\n`)
    throw new CommandRefusal(`Stopped, since ${error.message.split(/[;\n]/)[0]}.`)
  } finally {
    stopping = true
    await close()
    // A stop requested during the start: everything opened meanwhile is closed too.
    await started.catch(() => {})
    await close()
  }
  return undefined
}

async function start(running: RunContext): Promise<void> {
  const { context, print } = running
  const { config, env } = context
  const [url, broker] = await Promise.all([startDatabase(running), startBroker(running)])
  // A developer's endpoints are on this machine.
  const children = { WEBHOOK_ALLOW_PRIVATE: '1', ...env, ...broker }
  // The api has METRICS_PORT, the worker the one after it.
  const metrics = config.metricsPort > 0 ? { METRICS_PORT: String(config.metricsPort + 1) } : {}
  let worker: Child | undefined
  // Named before the api, and so stopped after it: requests that end need it.
  running.opened(async () => worker?.stop())
  const address = await startApi(running, children)
  if (running.stopping()) return
  // The worker shows addresses as well, in events that it sends: it has to know the port that the api took.
  const printWorker = print.as('worker')
  worker = startChild({
    name: 'worker',
    file: 'worker/main.ts',
    env: { ...children, PORT: portOf(address), ...metrics },
    print: printWorker
  })
  await worker.ready
  running.watch(worker.ended)

  const store = await openStore({ ...config, databaseUrl: url }, { name: 'run' })
  try {
    const demo = await openDemo({ address, store, config, actor: operatorName(config.operatorName) })
    const order = await placeDemoOrder(address, demo).catch((error: unknown): undefined => {
      // The broker of another run may not have our demo trader.
      if (!elsewhere(config) || running.options.once) throw error
      print.as('run')(`no first order at that broker: ${error instanceof Error ? error.message : error}`)
    })
    report(running, { address, demo, order, broker })
  } finally {
    await store.close()
  }
}

async function startDatabase({ context: { config }, opened, print }: RunContext): Promise<string> {
  const { url, stop } = await locateDatabase(config, print.as('database'))
  opened(stop)
  await reachDatabase(url)
  for (const name of await migrate(url, print.as('database'))) print.as('database')(`applied ${name}`)
  return url
}

/** Whether the broker belongs to another run. */
function elsewhere({ brokerUrl, brokerNext }: Config): boolean {
  return brokerUrl !== undefined || brokerNext !== undefined
}

/** The settings under which api and worker find the broker, where the environment names none. */
async function startBroker({ context, options, opened, watch, print }: RunContext): Promise<Record<string, string>> {
  const { config, env } = context
  if (elsewhere(config)) return {}
  const { dataDir } = config
  const broker = await openSharedBroker({ dataDir, tickMs: options.tickMs, env, print: print.as('broker') })
  opened(() => broker.close())
  watch(broker.lost)
  const controls = broker.control ? `, controlled at ${broker.control}` : ''
  print.as('broker')(`simulated at ${broker.url}${controls}${broker.own ? '' : ', shared with another run'}`)
  return broker.env
}

/** Starts the api and returns its address; without a configured port, on a free one when 8080 is busy. */
async function startApi({ context, opened, watch, print }: RunContext, env: NodeJS.ProcessEnv): Promise<string> {
  const { host, port: wanted } = context.config
  const fixed = Boolean(env.PORT)
  for (let tries = 1; ; tries++) {
    const port = await choosePort(wanted, { host, fixed })
    if (wanted !== 0 && port !== wanted)
      print.as('run')(`port ${wanted} is busy: taking ${port} (PORT=… asks for a certain one)`)
    const options = {
      name: 'api',
      file: 'api/main.ts',
      env: { ...env, PORT: String(port) },
      print: print.as('api')
    }
    const api: Child = startChild(options)
    opened(() => api.stop())
    try {
      const { address } = await api.ready
      watch(api.ended)
      return ownAddress(reachedAt(host), Number(portOf(address as string)))
    } catch (error) {
      // Another process may have taken the port between our check and its start.
      const lostPort = !fixed && tries < PORT_TRIES && (await choosePort(port, { host, fixed })) !== port
      if (!(error instanceof ChildEnded) || !lostPort) throw error
    }
  }
}

interface RunOutcome {
  address: string
  demo: Demo
  order: Order | undefined
  /** Settings under which other processes find the same broker. */
  broker: Record<string, string>
}

function report(
  { context: { json, config, env }, options }: RunContext,
  { address, demo, order, broker }: RunOutcome
): void {
  const tookMs = Math.round(performance.now())
  if (json) {
    print({ address, partnerId: demo.partnerId, order: order ?? null, tookMs }, { format: 'json' })
    return
  }
  const words = [
    '',
    pc.green(pc.bold(`Ready at ${address} after ${(tookMs / 1000).toFixed(1)} s.`)),
    `The reference is at ${address}/docs.`,
    ...(order ? ['', 'A five-tick order, placed over HTTP and settled:', '', indent(lines(order)), ''] : [''])
  ]
  if (!options.once) {
    const file = readEnvFile()
    const repeated = settingsToRepeat(env, file)
    const beside = { config, place: placeOf(address, env, file) }
    const same = repeated.length > 0 ? `, with the same ${repeated.join(', ')}` : ''
    words.push(
      'Place one more; the same clientOrderId again returns the same order:',
      '',
      indent(curlOf(address, demo)),
      '',
      `Administer it from another terminal, in this directory${same}:`,
      '',
      indent(operatorLines(beside, [`partners show ${demo.partnerId}`, 'orders list', 'events tail']).join('\n')),
      indent(doctorLine(beside, broker)),
      '',
      '`events tail` shows each order as it is bought and settled, and everything else that happens.',
      '',
      'One more worker shares the work, from such a terminal as well:',
      '',
      indent(workerLine(beside, broker)),
      '',
      'Ctrl-C stops everything; the data stay.',
      ''
    )
  }
  process.stdout.write(`${words.join('\n')}\n`)
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '  ')
}

/** A second Ctrl-C within this time is the same one, sent twice by make or npm. */
const SAME_SIGNAL_MS = 1500

/** Resolves on the first signal; one that comes later, while stopping, ends the process, and the others follow. */
function stopRequested(stopping: () => boolean): Promise<undefined> {
  return new Promise(resolve => {
    let first: number | undefined
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
      process.on(signal, () => {
        first ??= performance.now()
        if (stopping() && performance.now() - first > SAME_SIGNAL_MS) process.exit(130)
        resolve(undefined)
      })
  })
}

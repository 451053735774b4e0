// Machines of a failover run: network namespaces on one bridge, inside a namespace of processes, mounts and network that
// belongs to the run alone. When its first process ends, by whatever signal, the kernel ends all others and takes bridge,
// addresses and mounts with them; the directory is deleted by whoever entered.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, chmodSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/until.ts'

/** Where the processes of the service and HAProxy are. */
export const HERE = '10.77.0.1'

const packages: [program: string, debianPackage: string][] = [
  ['/usr/lib/postgresql/15/bin/postgres', 'postgresql-15'],
  ['/usr/lib/postgresql/15/bin/pg_rewind', 'postgresql-15'],
  ['/usr/bin/patroni', 'patroni'],
  ['/usr/lib/python3/dist-packages/patroni/dcs/etcd.py', 'patroni'],
  ['/usr/lib/python3/dist-packages/etcd/__init__.py', 'python3-etcd'],
  ['/usr/bin/etcd', 'etcd-server'],
  ['/usr/sbin/haproxy', 'haproxy'],
  ['/usr/bin/unshare', 'util-linux'],
  ['/usr/bin/setpriv', 'util-linux'],
  ['/usr/sbin/ip', 'iproute2']
]

/** Why a run is impossible here, a sentence with what to install; undefined where it is possible. */
export function whyNot(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces exist on Linux alone'
  if (process.getuid?.() !== 0) return 'only root can make network namespaces'
  const missing = packages.filter(([program]) => !exists(program)).map(([, name]) => name)
  if (missing.length > 0)
    return `Debian packages are missing: apt-get install --no-install-recommends ${[...new Set(missing)].join(' ')}`
  if (spawnSync('id', ['postgres']).status !== 0) return 'there is no user postgres'
  const tried = spawnSync('unshare', [...ISOLATED, 'true'], { encoding: 'utf8' })
  return tried.status === 0 ? undefined : `namespaces cannot be made here: ${tried.stderr.trim()}`
}

function exists(path: string): boolean {
  try {
    accessSync(path, constants.R_OK)
    return true
  } catch {
    return false
  }
}

const ISOLATED = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
// A shell as first process collects those whose parents have died: Patroni checks whether its killed server is gone.
const FIRST = `mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up &&
  ip link add lan type bridge && ip addr add ${HERE}/24 dev lan && ip link set lan up && "$@"; exit $?`

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Set for the program that runs in a world of its own. */
export const INSIDE = 'FAILOVER_INSIDE'

/** Runs `make failover` with these settings in a world of its own; returns its exit code. Nothing of it stays. */
export async function isolated(settings: Record<string, string>): Promise<number> {
  const args = ['--require', './.node-version.cjs', 'test/failover/run.ts']
  const dir = mkdtempSync(join(tmpdir(), 'operator-failover-'))
  chmodSync(dir, 0o711)
  const child = spawn('unshare', [...ISOLATED, 'sh', '-c', FIRST, 'sh', process.execPath, ...args], {
    env: { ...process.env, ...settings, TMPDIR: dir, [INSIDE]: 'on' },
    stdio: ['ignore', 'inherit', 'inherit']
  })
  const ended = once(child, 'exit')
  const stop = () => void child.kill('SIGKILL')
  for (const signal of signals) process.on(signal, stop)
  const [code] = await ended
  for (const signal of signals) process.off(signal, stop)
  if (code === KEPT || code === 1) console.log(`Logs and data are kept in ${dir}`)
  else rmSync(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  return code ?? 130
}

/** Exit code of a run that went well and whose logs and data are wanted; those of others are kept. */
export const KEPT = 3

const FIND_AGAIN = 20
const END_MS = 60_000

/** A machine: an address on the bridge, and the processes that are started on it. */
export class Machine {
  readonly name: string
  readonly address: string
  /** Whether its processes are stopped by SIGSTOP. */
  frozen = false
  #programs: { child: ChildProcess; start: () => ChildProcess }[] = []
  #down = false

  constructor(name: string, number: number) {
    this.name = name
    this.address = `10.77.0.${number}`
    const ip = (...args: string[]) => execFileSync('ip', args)
    ip('netns', 'add', name)
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
    ip('link', 'set', name, 'master', 'lan', 'up')
    ip('-n', name, 'addr', 'add', `${this.address}/24`, 'dev', 'eth0')
    ip('-n', name, 'link', 'set', 'eth0', 'up')
    ip('-n', name, 'link', 'set', 'lo', 'up')
  }

  /** Starts a program as the user postgres; one that ends by itself is started again a second later. */
  run(command: string[], env: Record<string, string>, log: string): void {
    const start = () => {
      const file = openSync(log, 'a')
      const args = ['netns', 'exec', this.name, 'setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups']
      const child = spawn('ip', [...args, '--', ...command], {
        cwd: '/',
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', TZ: 'UTC', HOME: '/nonexistent', ...env },
        stdio: ['ignore', file, file]
      })
      child.once('exit', () => {
        if (!this.#down) setTimeout(() => this.#restart(program), 1000)
      })
      return child
    }
    const program = { child: start(), start }
    this.#programs.push(program)
  }

  #restart(program: { child: ChildProcess; start: () => ChildProcess }): void {
    const { exitCode, signalCode } = program.child
    if (!this.#down && (exitCode !== null || signalCode !== null)) program.child = program.start()
  }

  /** Ids of its processes. */
  pids(): number[] {
    return execFileSync('ip', ['netns', 'pids', this.name], { encoding: 'utf8' })
      .split('\n')
      .filter(Boolean)
      .map(Number)
  }

  /** Kills all of its processes, as when it loses its power. */
  async kill(): Promise<void> {
    this.#down = true
    this.frozen = false
    await this.#signal('SIGKILL', () => this.pids().length === 0)
  }

  /** Ends its programs in order, as when it is shut down; resolves when all are gone. */
  async shutDown(): Promise<void> {
    this.#down = true
    for (const { child } of this.#programs) if (child.pid !== undefined) signal(child.pid, 'SIGTERM')
    await until(`the programs of ${this.name} to end`, () => this.pids().length === 0, END_MS)
  }

  /** Starts again what ran before `kill` or `shutDown`. */
  start(): void {
    this.#down = false
    for (const program of this.#programs) program.child = program.start()
  }

  /** Stops all of its processes; what its kernel has received waits for them. */
  async freeze(): Promise<void> {
    this.frozen = true
    let before = ''
    await this.#signal('SIGSTOP', () => {
      const now = this.pids().join()
      const same = now === before
      before = now
      return same
    })
  }

  thaw(): void {
    for (const pid of this.pids()) signal(pid, 'SIGCONT')
    this.frozen = false
  }

  /** Sends the signal to all of its processes until `done`, since some may be starting others. */
  async #signal(name: NodeJS.Signals, done: () => boolean): Promise<void> {
    for (let time = 0; time < FIND_AGAIN; time++) {
      for (const pid of this.pids()) signal(pid, name)
      await sleep(20)
      if (done()) return
    }
    throw new Error(`${this.name} did not take ${name}.`)
  }

  /** Takes its cable out: packets are lost, and nobody is notified. */
  cut(): void {
    execFileSync('ip', ['link', 'set', this.name, 'down'])
  }

  mend(): void {
    execFileSync('ip', ['link', 'set', this.name, 'up'])
  }
}

/** Sends a signal to a process that may have ended meanwhile. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

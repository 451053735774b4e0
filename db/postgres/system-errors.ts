// Errors of the operating system and of the network as one sentence: what was refused, where, and why. A person who
// starts a process or runs a command reads it; a stack would hide the path among our own files.
import type { Server } from 'node:net'
import { getSystemErrorMap } from 'node:util'
import { ConfigError } from '../../schemas/config/config.ts'

interface SystemError extends NodeJS.ErrnoException {
  dest?: string
  address?: string
  port?: number
  hostname?: string
}

const steps: Record<string, string> = {
  open: 'open',
  read: 'read',
  write: 'write',
  close: 'close',
  mkdir: 'make the directory',
  scandir: 'list the directory',
  stat: 'look at',
  lstat: 'look at',
  access: 'reach',
  chmod: 'change the mode of',
  chown: 'change the owner of',
  link: 'make the link',
  symlink: 'make the link',
  rename: 'rename',
  unlink: 'delete',
  rm: 'delete',
  rmdir: 'delete',
  listen: 'listen at',
  bind: 'listen at',
  connect: 'connect to',
  getaddrinfo: 'find the host'
}

/** For example `cannot open /etc/key.pem: permission denied (EACCES)`; undefined for an error of another kind. */
export function systemErrorText(error: unknown): string | undefined {
  // A host with several addresses fails with one error for each.
  if (error instanceof AggregateError) return error.errors.map(systemErrorText).find(text => text !== undefined)
  if (!(error instanceof Error)) return undefined
  const { code, errno, syscall, path, dest, hostname, address, port } = error as SystemError
  if (code === undefined || syscall === undefined) return undefined
  const reason = (errno === undefined ? undefined : getSystemErrorMap().get(errno)?.[1]) ?? 'failed'
  const step = steps[syscall] ?? syscall.replace(/^spawn.*/, 'start')
  const socket = port === undefined ? address : `${address?.includes(':') ? `[${address}]` : address}:${port}`
  const place = path === undefined ? (hostname ?? socket) : dest === undefined ? path : `${dest} (from ${path})`
  return `cannot ${step}${place ? ` ${place}` : ''}: ${reason} (${code})`
}

/** Whether a certificate is not accepted, or not for this host, by Node's code. */
export const isUntrusted = (code: string | undefined): boolean => /CERT|SIGNATURE|ISSUER|HOSTNAME/.test(code ?? '')

/**
 * Resolves when the server listens at the address that two settings name. Throws ConfigError naming the setting when
 * the port is taken or not allowed, or the host is not an address of this machine.
 */
export async function listenAt(
  server: Server,
  { host, port, settings }: { host: string; port: number; settings: { host: string; port: string } }
): Promise<void> {
  server.listen(port, host)
  await new Promise<void>((resolve, reject) => {
    server.once('listening', resolve)
    server.once('error', (error: NodeJS.ErrnoException) => {
      const text = refusedAddress(error.code, settings, { host, port })
      reject(text === undefined ? error : new ConfigError(text, { cause: error }))
    })
  })
}

function refusedAddress(
  code: string | undefined,
  settings: { host: string; port: string },
  { host, port }: { host: string; port: number }
): string | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return `${settings.port} ${port} of ${settings.host} ${host} is taken by another process (${code})`
    case 'EACCES':
      return `${settings.port} ${port} may not be opened by this user (${code}): take one from 1024 on`
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${settings.host} ${host} is not an address of this machine (${code})`
    default:
      return undefined
  }
}

// Sockets that are opened only to be closed with a code: a browser cannot see why an upgrade was refused, but it sees
// the code.
import type { Duplex } from 'node:stream'

// In a process. Each costs memory until its client has closed its side.
const AT_ONCE = 200
const CLOSE_MS = 3000

export class SurplusSockets {
  readonly #sockets = new Set<Duplex>()

  /** Whether one more may be opened; it ends within a few seconds, whatever its client does. */
  take(socket: Duplex): boolean {
    if (socket.destroyed || this.#sockets.size >= AT_ONCE) return false
    this.#sockets.add(socket)
    const timer = setTimeout(() => socket.destroy(), CLOSE_MS)
    socket.once('close', () => {
      clearTimeout(timer)
      this.#sockets.delete(socket)
    })
    return true
  }

  /** Ends those that are open. */
  end(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

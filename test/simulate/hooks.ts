// In a simulation the dialects run as they are, but for the socket below them and the timers of Node's promises: those
// are virtual. To be registered before anything of the worker is loaded.
import { registerHooks } from 'node:module'

const instead: Record<string, string> = {
  './opening.ts': new URL('socket.ts', import.meta.url).href,
  'node:timers/promises': new URL('timers.ts', import.meta.url).href
}

registerHooks({
  resolve(specifier, context, next) {
    const other = context.parentURL?.includes('/worker/broker/') ? instead[specifier] : undefined
    return next(other ?? specifier, context)
  }
})

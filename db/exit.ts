// A process that ends must not wait for itself.
import { setFlagsFromString } from 'node:v8'

/**
 * Has V8 give up its middle compiler from now on. A process that ends while one of its compilations is under way can wait
 * for itself for ever, deaf to signals it handled before (https://github.com/nodejs/node/issues/54918; seen here once
 * in twenty ends of a busy process). Call it a moment before the end, or at the start of what is over soon.
 */
export function avoidExitDeadlock(): void {
  setFlagsFromString('--no-maglev')
}

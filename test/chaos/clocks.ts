// Wall clocks that are wrong: a process runs with libfaketime before it, its clock off by some seconds. The monotonic
// clock is left alone, as it is on a machine whose wall clock is wrong.
import { existsSync, readdirSync } from 'node:fs'

// Where Debian, Fedora and Arch put it; the multi-threaded build, since Node has threads.
const places = ['/usr/lib', '/usr/lib64', '/usr/local/lib'].flatMap(lib => [
  `${lib}/faketime/libfaketimeMT.so.1`,
  ...foldersOf(lib).map(folder => `${lib}/${folder}/faketime/libfaketimeMT.so.1`)
])

/** The library, or undefined where this machine has none (Debian package `libfaketime`). */
export function findFaketime(): string | undefined {
  return places.find(place => existsSync(place))
}

/** The environment of a process whose wall clock is `ms` ahead (behind, where negative). */
export function withClock(library: string, ms: number): Record<string, string> {
  return {
    LD_PRELOAD: library,
    FAKETIME: `${ms < 0 ? '-' : '+'}${(Math.abs(ms) / 1000).toFixed(3)}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    // Older versions read this name.
    DONT_FAKE_MONOTONIC: '1'
  }
}

function foldersOf(path: string): string[] {
  return existsSync(path) ? readdirSync(path).filter(name => name.endsWith('-linux-gnu')) : []
}

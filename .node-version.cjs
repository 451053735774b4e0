// Loaded before every main file by the npm scripts and by make, in a language any Node understands: an older
// one would only say that it does not know the extension ".ts".
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  console.error(
    `This needs Node 24 and got ${process.version}: run \`make install\`, which brings its own, or check that npm may run install scripts.`
  )
  process.exit(1)
}

// What was compiled once is kept for the next start, here and in the processes we start: half the time of a
// command is otherwise spent on it.
const { join } = require('node:path')
process.env.NODE_COMPILE_CACHE ??= join(__dirname, 'node_modules', '.cache', 'compiled')
require('node:module').enableCompileCache(process.env.NODE_COMPILE_CACHE)

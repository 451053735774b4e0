// Loaded before every main file by the npm scripts, in a language any Node understands: an older one
// would only say that it does not know the extension ".ts".
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  console.error(
    `This needs Node 24 and got ${process.version}: run \`make install\`, which brings its own, or check that npm may run install scripts.`
  )
  process.exit(1)
}

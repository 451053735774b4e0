// Node's HTTP by another way than an import. Importing node:http reads each of its exports, among them WebSocket, which is there on
// demand: so every process would load fetch and HTTP/2 at its start, which takes
// some 20 ms of CPU.

/** The module node:http. */
export const http = process.getBuiltinModule('node:http')

// `operator mcp`: serves the Model Context Protocol on stdin and stdout until stdin ends and the calls under way are finished.
// SERVICE_KEY holds the key.
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { endWithOutput } from '../../db/platform/output.ts'
import { readEnvironment } from '../../db/platform/process.ts'
import { createMcpServer } from './server.ts'

const KEY = /^service_(live|test)_[0-9a-f]{16}_[0-9a-f]{48}$/

try {
  const [url, allow] = process.argv.slice(2)
  const key = process.env.SERVICE_KEY ?? ''
  if (!KEY.test(key)) throw new Error('SERVICE_KEY must hold an API key, service_live_… or service_test_…')
  const baseUrl = (url || readEnvironment().config.baseUrl).replace(/\/$/, '')
  const server = createMcpServer({ baseUrl, key, allowOrders: allow === 'allow-orders' })
  server.onerror = ({ message }) => process.stderr.write(`${message}\n`)
  // The transport closes by itself at a message of more than 10 MiB, and not at the end of stdin.
  server.onclose = () => {
    process.exitCode = 1
  }
  endWithOutput()
  await server.connect(new StdioServerTransport())
} catch (error) {
  // Stdout belongs to the protocol.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}

// A bare Koa server that reads a JSON body and returns a constant: what a hostile partner's calls take from the machine without
// the service. With `?us=` in its address a request takes so many microseconds of CPU as well. Started by hostile.ts as a process of its own, to which it sends its address.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import { koaBody } from 'koa-body'

const app = new Koa()
app.use(koaBody({ jsonLimit: '2mb' }))
app.use(ctx => {
  const until = process.threadCpuUsage().user + Number(ctx.query.us ?? 0)
  while (process.threadCpuUsage().user < until);
  ctx.body = { received: true }
})
const server = createServer(app.callback())
server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
process.once('disconnect', () => process.exit())

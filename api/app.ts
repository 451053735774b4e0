// The middleware in order: respond (id, envelope, log line), secure (HTTPS first of all), the reference page, the status, the deployed sites, then the routes; what is left is a 404.
import Koa from 'koa'
import { ApiError } from '../schemas/errors/errors.ts'
import { docs } from './description/docs.ts'
import { STREAM_PATH } from './events/stream/admission.ts'
import type { ApiServices } from './operation.ts'
import { operations } from './operations.ts'
import { nearestPath } from './request/nearest.ts'
import { respond } from './request/respond.ts'
import { secure } from './request/secure.ts'
import { routes } from './routes.ts'
import { sites } from './sites/sites.ts'
import { status } from './status.ts'

/** The application over the open services; it does not listen yet. */
export function createApp(services: ApiServices): Koa {
  const app = new Koa({ proxy: services.config.trustProxy > 0, maxIpsCount: services.config.trustProxy })
  app.on('error', (error: unknown) => services.log.error({ err: error }, 'after the response'))
  app.use(respond(services))
  app.use(secure(services.config))
  app.use(docs(services))
  app.use(status(services))
  app.use(sites(services))
  app.use(routes(operations, services))
  app.use(ctx => {
    if (ctx.path === STREAM_PATH)
      throw new ApiError(
        'NOT_FOUND',
        'Only a WebSocket is opened here, and this request has no header Upgrade: websocket; a proxy on the way may have removed it. See /docs/stream.'
      )
    const nearest = nearestPath(operations, ctx.path)
    throw new ApiError('NOT_FOUND', `There is no such path${nearest ? `; did you mean ${nearest}?` : '.'} See /docs.`)
  })
  return app
}

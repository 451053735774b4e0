// The reference page at /docs, for anybody: the description drawn by Redoc, whose bundle comes out of an npm
// package and is served from here. Nothing is loaded from elsewhere, and the page cannot talk to elsewhere.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Context, Middleware, Next } from 'koa'
import { ApiError } from '../../schemas/errors/errors.ts'
import { describeStream } from '../events/stream/asyncapi.ts'
import { streamPage } from '../events/stream/page.ts'
import type { ApiServices } from '../operation.ts'
import { operations } from '../operations.ts'
import { isKnown } from '../request/conditional.ts'
import { chapters, guide, guides } from './guides.ts'
import { llmsText, markdownPath } from './llms.ts'
import { describe } from './spec.ts'

const compress = promisify(gzip)

const PROTECTION = {
  // Redoc writes its styles into the page as it draws it, hence the one 'unsafe-inline'; no script may.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'public, max-age=300'
}

const ours = (name: string) => readFile(join(import.meta.dirname, 'docs', name))
const bundle = createRequire(import.meta.url).resolve('redoc/bundles/redoc.standalone.js')
const redoc = () => readFile(bundle, 'utf8')
const swagger = (name: string) => readFile(createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`))

// Texts of Redoc's bundle (left) and their replacements. Its one picture would come from its maker's servers: ours has that name
// here. Its search takes all guides for one document: each section becomes one of its own, so that a code or the title of
// a guide is found under its name. The page gives it the text of each section as `textOfSection`.
const adaptations = [
  ['https://cdn.redoc.ly/redoc/logo-mini', '/docs/logo-mini'],
  [
    'addItem(e,t=[]){if(e.link&&e.content)try{',
    'addItem(e,t=[]){if(e.link&&!e.content){let n=globalThis.textOfSection(e.link);if(n!==void 0)this.#e.push({id:e.link,url:e.link,title:e.label,text:n,path:t});return}if(e.link&&e.content)try{'
  ]
] as const

/** The bundle with our adaptations. Throws when it lacks a place that one of them needs, as another version might. */
export function adaptRedoc(bundle: string): string {
  return adaptations.reduce((text, [theirs, ours]) => {
    if (!text.includes(theirs)) throw new Error(`This version of redoc has no '${theirs}' to adapt.`)
    return text.replaceAll(theirs, ours)
  }, bundle)
}

interface File {
  type: string
  read(services: Pick<ApiServices, 'config'>): Promise<Buffer>
}

const MARKDOWN = 'text/markdown; charset=utf-8'

/** What is served, by path. */
const files: Record<string, File> = {
  '/llms.txt': {
    type: 'text/plain; charset=utf-8',
    read: async ({ config }) => Buffer.from(llmsText(config.baseUrl, operations))
  },
  [markdownPath('all')]: {
    type: MARKDOWN,
    read: async ({ config }) => Buffer.from(guides(config.baseUrl, operations))
  },
  ...Object.fromEntries(
    chapters.map(name => [
      markdownPath(name),
      {
        type: MARKDOWN,
        read: async ({ config }) => Buffer.from(guide(name, config.baseUrl, operations))
      } satisfies File
    ])
  ),
  '/docs': { type: 'text/html; charset=utf-8', read: () => ours('page.html') },
  '/docs/page.css': { type: 'text/css; charset=utf-8', read: () => ours('page.css') },
  '/docs/icon.svg': { type: 'image/svg+xml', read: () => ours('icon.svg') },
  '/docs/start.js': { type: 'text/javascript; charset=utf-8', read: () => ours('start.js') },
  '/docs/redoc.js': {
    type: 'text/javascript; charset=utf-8',
    read: async () => Buffer.from(adaptRedoc(await redoc()))
  },
  '/docs/logo-mini.svg': { type: 'image/svg+xml', read: () => ours('logo-mini.svg') },
  '/docs/logo-mini-full.svg': { type: 'image/svg+xml', read: () => ours('logo-mini-full.svg') },
  // A second package, since Redoc shows calls and makes none.
  '/docs/try': { type: 'text/html; charset=utf-8', read: () => ours('try.html') },
  '/docs/try.js': { type: 'text/javascript; charset=utf-8', read: () => ours('try.js') },
  '/docs/try.css': { type: 'text/css; charset=utf-8', read: () => swagger('swagger-ui.css') },
  '/docs/try-bundle.js': { type: 'text/javascript; charset=utf-8', read: () => swagger('swagger-ui-bundle.js') },
  '/docs/openapi.json': {
    type: 'application/json; charset=utf-8',
    read: async ({ config }) => Buffer.from(JSON.stringify(describe(operations, config.baseUrl)))
  },
  '/docs/asyncapi.json': {
    type: 'application/json; charset=utf-8',
    read: async ({ config }) => Buffer.from(JSON.stringify(describeStream(config.streamUrl)))
  },
  '/docs/stream': {
    type: 'text/html; charset=utf-8',
    read: async ({ config }) => Buffer.from(streamPage(config.streamUrl))
  }
}

interface Representation {
  etag: string
  body: Buffer
}

interface ServedFile {
  type: string
  identity: Representation
  gzip: Representation
}

/** Serves /docs, what it loads, the guides as Markdown and /llms.txt, and leads there from /; leaves every other path to what follows. Throws NOT_FOUND and METHOD_NOT_ALLOWED. */
export function docs(services: Pick<ApiServices, 'config'>): Middleware {
  // Read and compressed on first use, then kept: 4 MB together.
  const served = new Map<string, Promise<ServedFile>>()
  const serve = async ({ type, read }: File): Promise<ServedFile> => {
    const plain = await read(services)
    const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22)
    // A strong tag is of one sequence of bytes, so the compressed one has another.
    return {
      type,
      identity: { etag: `"${hash}"`, body: plain },
      gzip: { etag: `"${hash}-gzip"`, body: await compress(plain) }
    }
  }

  return async (ctx: Context, next: Next) => {
    if (ctx.path === '/' && (ctx.method === 'GET' || ctx.method === 'HEAD')) {
      ctx.state.operation = 'docs'
      return ctx.redirect('/docs')
    }
    if (!/^\/docs(\/|$)/.test(ctx.path) && ctx.path !== '/llms.txt') return next()
    ctx.state.operation = 'docs'
    const path = ctx.path === '/docs/' ? '/docs' : ctx.path
    const file = Object.hasOwn(files, path) ? files[path] : undefined
    if (!file) throw new ApiError('NOT_FOUND', 'There is no such page; see /docs.')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
      throw new ApiError('METHOD_NOT_ALLOWED', 'This path takes GET, HEAD.', { headers: { Allow: 'GET, HEAD' } })
    const kept = served.get(path) ?? serve(file)
    served.set(path, kept)
    const found = await kept.catch(error => {
      served.delete(path)
      throw error
    })
    const encoding = ctx.acceptsEncodings('gzip', 'identity') === 'gzip' ? 'gzip' : 'identity'
    const { etag, body } = found[encoding]
    ctx.set(PROTECTION)
    ctx.set({ ETag: etag, Vary: 'Accept-Encoding' })
    ctx.type = found.type
    ctx.status = 200
    if (isKnown(ctx.get('If-None-Match'), etag)) ctx.status = 304
    else {
      if (encoding === 'gzip') ctx.set('Content-Encoding', encoding)
      ctx.body = body
    }
  }
}

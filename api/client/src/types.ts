// What each call takes and returns, read off the generated types.
import type { components, paths } from './service.ts'

export type Schemas = components['schemas']
export type Method = 'get' | 'post' | 'patch' | 'delete'
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, object> ? P : never
}[keyof paths]
type OperationOf<M extends Method, P extends PathOf<M>> = paths[P] extends Record<M, infer O> ? O : never
type Field<O, Name extends PropertyKey> = Name extends keyof O ? O[Name] : undefined
type Json<T> = T extends { content: { 'application/json': infer J } } ? J : undefined
/** A property that is absent, optional or required, according to its type. */
type Given<Name extends string, T> = [T] extends [undefined]
  ? unknown
  : undefined extends T
    ? { [K in Name]?: T }
    : { [K in Name]: T }
type Parameter<O, Place extends string> = Given<Place, Field<Field<O, 'parameters'>, Place>>

export type Result<M extends Method, P extends PathOf<M>> = Json<Field<Field<OperationOf<M, P>, 'responses'>, 200>>
export type Input<M extends Method, P extends PathOf<M>> = CallOptions &
  Parameter<OperationOf<M, P>, 'path'> &
  Parameter<OperationOf<M, P>, 'query'> &
  Given<'body', Json<Field<OperationOf<M, P>, 'requestBody'>>>
/** The input may be left out where nothing of it is required. */
export type Arguments<M extends Method, P extends PathOf<M>> =
  object extends Input<M, P> ? [input?: Input<M, P>] : [input: Input<M, P>]
export type Entry<P extends PathOf<'get'>> = Result<'get', P> extends { data: (infer E)[] } ? E : never

export interface CallOptions {
  /** Header fields besides, such as `X-Trader-Session`. */
  headers?: Record<string, string>
  /** The same for each repeat of one wish, also after a crash of yours; else made for each call. Orders have a clientOrderId. */
  idempotencyKey?: string
  /** No repeat begins later than this after the call. */
  deadlineMs?: number
  /** How long one attempt may take. */
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

// The path that was probably meant, for a 404.
import { distance } from 'fastest-levenshtein'
import type { Operation } from '../operation.ts'

// Longer than any path of ours; what is longer was not mistyped.
const MAX_LENGTH = 100
/** A third of the letters may be wrong, of those outside parameters: any text is right in their place. */
const TOLERANCE = 1 / 3

/** The path of an operation that a path comes near to, with its methods; undefined where none does. */
export function nearestPath(operations: Operation[], path: string): string | undefined {
  if (path.length > MAX_LENGTH) return undefined
  const request = path.toLowerCase().replace(/\/+$/, '')
  let best: { template: string; away: number } | undefined
  for (const template of new Set(operations.map(row => row.path))) {
    const away = distance(request, filled(template, request).toLowerCase())
    if (away <= template.replaceAll(/\{[^}]*\}/g, '').length * TOLERANCE && (!best || away < best.away))
      best = { template, away }
  }
  if (!best) return undefined
  const { template } = best
  const methods = operations.filter(row => row.path === template).map(({ method }) => method)
  return `${methods.join(' or ')} ${template}`
}

/** A path with the request's values in the places of its parameters. */
function filled(template: string, request: string): string {
  const values = request.split('/')
  return template
    .split('/')
    .map((part, index) => (part.startsWith('{') ? (values[index] ?? part) : part))
    .join('/')
}

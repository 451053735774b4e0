// Scopes limit what a key may do: an area and read or write. GET and the two signals of AI need read, anything else write.

export const areas = [
  'trading',
  'copy',
  'ai',
  'templates',
  'traders',
  'trades',
  'usage',
  'community',
  'marketplace',
  'events',
  'webhooks',
  'analytics',
  'admin'
] as const

export type Scope = `${(typeof areas)[number]}:${'read' | 'write'}`

export const allScopes: readonly Scope[] = areas.flatMap(area => [`${area}:read`, `${area}:write`] as const)

/** The scopes of a key that was created without a list: everything but admin. */
export const defaultScopes: readonly Scope[] = allScopes.filter(scope => !scope.startsWith('admin:'))

export function isScope(text: string): text is Scope {
  return (allScopes as readonly string[]).includes(text)
}

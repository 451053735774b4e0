// The schema of a queue's data as a condition in SQL, for queues whose jobs are taken by one statement: what that
// statement cannot read must not stop it, and becomes a dead letter instead.
import type { Schema } from '../../schemas/fields/fields.ts'

/**
 * Whether the jsonb expression `value` matches `schema`, as SQL that is never null. Knows objects, arrays of one kind,
 * strings, integers and `anyOf`; throws for any other schema.
 */
export function conditionOf(schema: Schema, value: string): string {
  if (Array.isArray(schema.anyOf))
    return `(${(schema.anyOf as Schema[]).map(each => conditionOf(each, value)).join(' or ')})`
  const condition = conditions[schema.type as string]
  if (!condition) throw new Error(`no condition for a schema of type ${JSON.stringify(schema.type)}`)
  // `case` decides by the type first: `and` may be evaluated in any order.
  const type = schema.type === 'integer' ? 'number' : (schema.type as string)
  return `case when jsonb_typeof(${value}) = '${type}' then ${condition(schema, value).join(' and ') || 'true'} else false end`
}

const conditions: Record<string, (schema: Schema, value: string) => string[]> = {
  object({ properties = {}, required = [], additionalProperties }, value) {
    const known = Object.entries(properties as Record<string, Schema>)
    const fields = known.map(([name, field]) => {
      const holds = conditionOf(field, `(${value} -> ${quoted(name)})`)
      return (required as string[]).includes(name) ? holds : `(not jsonb_exists(${value}, ${quoted(name)}) or ${holds})`
    })
    const names = known.map(([name]) => quoted(name)).join(', ')
    return additionalProperties === false ? [...fields, `${value} - array[${names}]::text[] = '{}'`] : fields
  },
  array({ items, minItems = 0, maxItems }, value) {
    const length = `jsonb_array_length(${value})`
    return [
      `${length} >= ${Number(minItems)}`,
      ...(maxItems === undefined ? [] : [`${length} <= ${Number(maxItems)}`]),
      `not exists (select from jsonb_array_elements(${value}) as each (item) where not ${conditionOf(items as Schema, 'each.item')})`
    ]
  },
  string({ minLength, maxLength, pattern }, value) {
    const text = `(${value} #>> '{}')`
    return [
      ...(minLength === undefined ? [] : [`length(${text}) >= ${Number(minLength)}`]),
      ...(maxLength === undefined ? [] : [`length(${text}) <= ${Number(maxLength)}`]),
      ...(pattern === undefined ? [] : [`${text} ~ ${quoted(String(pattern))}`])
    ]
  },
  integer({ minimum, maximum }, value) {
    const number = `(${value})::numeric`
    return [
      `${number} % 1 = 0`,
      ...(minimum === undefined ? [] : [`${number} >= ${Number(minimum)}`]),
      ...(maximum === undefined ? [] : [`${number} <= ${Number(maximum)}`])
    ]
  }
}

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

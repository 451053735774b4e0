// Reads an OpenAPI 3.1 document as a partner's tool would: follows its references and checks values against
// its schemas. It knows nothing of the rows.
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

/** Checks against schemas of a document, which may refer to its components. */
export function openValidator(document: object) {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false })
  formats.default(ajv)
  ajv.addSchema(document, 'document')
  const compiled = new WeakMap<object, ReturnType<Ajv2020['compile']>>()
  const compile = (schema: object) => {
    const known = compiled.get(schema)
    if (known) return known
    const check = ajv.compile(absolute(schema) as object)
    compiled.set(schema, check)
    return check
  }
  return {
    /** What in `value` breaks the schema, empty when nothing does. */
    problems(schema: object, value: unknown): string[] {
      const check = compile(schema)
      if (check(value)) return []
      return (check.errors ?? []).map(error => `${error.instancePath || '/'} ${error.message}`)
    }
  }
}

// A schema cut out of the document keeps pointing into it.
function absolute(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(absolute)
  if (part === null || typeof part !== 'object') return part
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) =>
      key === '$ref' && typeof value === 'string' && value.startsWith('#')
        ? [key, `document${value}`]
        : [key, absolute(value)]
    )
  )
}

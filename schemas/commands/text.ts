// Kinds of text that several commands of the operator take.

/** Text for people: one line. */
export const lineOfText = (minLength: number, maxLength: number, description: string) =>
  ({ type: 'string', minLength, maxLength, pattern: '^[^\\u0000-\\u001f\\u007f]+$', description }) as const

/** A partner's, a key's or another identifier: any text, for one that does not exist is NOT_FOUND. */
export const id = (description: string) => ({ type: 'string', minLength: 1, maxLength: 128, description }) as const

/** ISO 8601 with its zone, or a day (its beginning, UTC). */
export const instant = (description: string) =>
  ({
    type: 'string',
    pattern:
      '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])(T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d))?$',
    description
  }) as const

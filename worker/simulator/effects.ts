// What trouble there is to be had from the simulated broker, on demand and by magic.

/** What happens to a call that meets a rule. The page on testing shows them. */
export const effects = {
  error: 'Is refused with the error `code`; the call does not run.',
  'error-late':
    'Is refused with the error `code`; the call runs `delayMs` later all the same, and its result is returned as well.',
  altered: 'Runs the call with the fields of `set` in place of its own, those of objects one by one.',
  twice: 'Runs the call twice and returns both results.',
  'drop-before': 'Cuts the connection; the call does not run.',
  'drop-after': 'Runs the call, then cuts the connection instead of returning its result.',
  timeout: 'Is refused with `Timeout`; the call never runs.',
  'timeout-late': 'Is refused with `Timeout`, and the call runs `delayMs` later.',
  mute: 'Runs the call, `delayMs` later where given, and returns nothing.',
  ignore: 'Neither runs the call nor returns anything.',
  duplicate: 'Returns the result twice.',
  reorder: "Holds the result back until the connection's next one has left, at most `delayMs`.",
  slow: 'Runs the call and returns its result `delayMs` later.'
} as const

export type Effect = keyof typeof effects

// Examples under the help of a command.

/** Text for `addHelpText('after', …)`. */
export function examples(...commands: string[]): string {
  return `\nExamples:\n${commands.map(command => `  operator ${command}`).join('\n')}`
}

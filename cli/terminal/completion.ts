// operator completion: a script for the shell, written from the program itself, so that it knows every
// command and option there is.
import { Argument, type Command } from 'commander'
import { examples } from './examples.ts'

interface CompletionLevel {
  /** '' at the top, then '/partners', '/partners/create' … */
  path: string
  words: { word: string; about: string }[]
  options: { word: string; about: string }[]
}

const installs = {
  bash: 'source <(operator completion bash)',
  zsh: 'source <(operator completion zsh)',
  fish: 'operator completion fish | source'
}
type Shell = keyof typeof installs

export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('Print a completion script for the shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(Object.keys(installs)))
    .addHelpText('after', examples('completion bash > /etc/bash_completion.d/operator'))
    .addHelpText('after', `\nFor this session: ${installs.bash}`)
    .action((shell: Shell) => {
      const places = placesOf(program, '')
      const script = { bash, zsh, fish }[shell](places)
      const { json } = program.opts() as { json?: boolean }
      process.stdout.write(json ? `${JSON.stringify({ shell, script }, null, 2)}\n` : script)
    })
}

function placesOf(command: Command, path: string): CompletionLevel[] {
  const help = command.createHelp()
  const children = help.visibleCommands(command).filter(child => child.name() !== 'help')
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
  const place: CompletionLevel = {
    path,
    words: children.map(child => ({ word: child.name(), about: child.description() })),
    options: options.flatMap(option => (option.long ? [{ word: option.long, about: option.description }] : []))
  }
  return [place, ...children.flatMap(child => placesOf(child, `${path}/${child.name()}`))]
}

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
const walks = (places: CompletionLevel[]) => places.filter(({ path }) => path !== '').map(({ path }) => quote(path))

function bash(places: CompletionLevel[]): string {
  return `# operator: completion for bash
_operator() {
  local cur=\${COMP_WORDS[COMP_CWORD]} path='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path/$word" in ${walks(places).join('|')}) path="$path/$word" ;; esac
  done
  case "$path" in
${places.map(({ path, words, options }) => `    ${quote(path)}) COMPREPLY=($(compgen -W ${quote([...words, ...options].map(({ word }) => word).join(' '))} -- "$cur")) ;;`).join('\n')}
  esac
}
complete -F _operator operator
`
}

function zsh(places: CompletionLevel[]): string {
  const entry = ({ word, about }: { word: string; about: string }) =>
    quote(`${word}:${about.replaceAll('\\', '\\\\').replaceAll(':', '\\:')}`)
  return `#compdef operator
# operator: completion for zsh
_operator() {
  local at='' word
  local -a candidates
  for word in \${words[2,CURRENT-1]}; do
    case "$at/$word" in ${walks(places).join('|')}) at="$at/$word" ;; esac
  done
  case "$at" in
${places.map(({ path, words, options }) => `    ${quote(path)}) candidates=(${[...words, ...options].map(entry).join(' ')}) ;;`).join('\n')}
  esac
  _describe operator candidates
}
compdef _operator operator
`
}

function fish(places: CompletionLevel[]): string {
  const lines = places.flatMap(({ path, words, options }) => {
    const here = `complete -c operator -f -n ${quote(`test "$(__operator_at)" = ${JSON.stringify(path)}`)}`
    return [
      ...words.map(({ word, about }) => `${here} -a ${quote(word)} -d ${quote(about)}`),
      ...options.map(({ word, about }) => `${here} -l ${quote(word.slice(2))} -d ${quote(about)}`)
    ]
  })
  return `# operator: completion for fish
function __operator_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case ${walks(places).join(' ')}
                set at "$at/$word"
        end
    end
    echo $at
end
${lines.join('\n')}
`
}

// The output of a run's processes, line by line under their names: log lines are formatted for reading on a terminal,
// and unchanged elsewhere.
import pc from 'picocolors'
import pretty from 'pino-pretty'

export interface Printer {
  /** A writer of lines under this name. */
  as(name: string): (line: string) => void
}

const colours = { api: pc.cyan, worker: pc.magenta, broker: pc.yellow, database: pc.blue, run: pc.bold }

export function openPrinter(out: NodeJS.WriteStream): Printer {
  const readable = pretty.prettyFactory({
    colorize: pc.isColorSupported,
    ignore: 'pid,process,hostname',
    translateTime: 'SYS:HH:MM:ss',
    singleLine: true
  })
  return {
    as(name) {
      const colour = colours[name as keyof typeof colours] ?? String
      const prefix = colour(`${name.padEnd(8)} │ `)
      return line => {
        const text = out.isTTY && line.startsWith('{"') ? readable(line).trimEnd() : line
        out.write(`${text.replaceAll(/^/gm, prefix)}\n`)
      }
    }
  }
}

// The files of an export: written and synced to disk, and read again before what they hold is dropped.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stringify } from 'csv-stringify/sync'
import { ExportSum } from '../../db/orders/archive-months.ts'
import { archivedColumns } from '../../db/orders/archiving.ts'
import { textCell } from '../../schemas/fields/csv.ts'
import { type NewFile, openNewFile } from '../terminal/new-file.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export interface ExportFile {
  file: string
  format: 'csv' | 'jsonl'
  bytes: number
  sha256: string
}

interface Export {
  orders: number
  /** The sum over the orders, as the database computes it. */
  checksum: string
  files: ExportFile[]
}

const columns = archivedColumns.split(/,\s+/)

/** A number as it is written: money may have more digits than a JavaScript number has. */
const asWritten = (_key: string, value: unknown, context?: { source?: string }): unknown =>
  typeof value === 'number' ? context?.source : value

/** The cells of an order. The JSON lines have its texts as they are. */
function cellsOf(line: string): string[] {
  const order = JSON.parse(line) as Record<string, unknown>
  const exact = JSON.parse(line, asWritten) as Record<string, unknown>
  return columns.map(column => {
    const value = order[column]
    if (value === null) return ''
    if (typeof value === 'string') return textCell(value)
    return typeof value === 'object' ? JSON.stringify(value) : String(exact[column])
  })
}

/** Writes batches of orders, each a JSON text, into new files of mode 600; what cannot be written whole is deleted. */
export async function writeExport(
  batches: AsyncIterable<string[]>,
  wanted: Pick<ExportFile, 'file' | 'format'>[]
): Promise<Export> {
  const sum = new ExportSum()
  const targets: (ExportFile & { output: NewFile; digest: ReturnType<typeof createHash> })[] = []
  let header = true
  try {
    for (const { file, format } of wanted)
      targets.push({
        file,
        format,
        bytes: 0,
        sha256: '',
        output: await openNewFile(file),
        digest: createHash('sha256')
      })
    for await (const lines of batches) {
      for (const line of lines) sum.add(line)
      for (const target of targets) {
        let text = `${lines.join('\n')}\n`
        if (target.format === 'csv') {
          text = stringify(lines.map(cellsOf), { columns, header })
          header = false
        }
        await target.output.append(text)
        target.digest.update(text)
        target.bytes += Buffer.byteLength(text)
      }
    }
    for (const { output } of targets) await output.finish()
  } catch (error) {
    for (const { output } of targets) await output.discard()
    throw error
  }
  return {
    orders: sum.orders,
    checksum: sum.checksum,
    files: targets.map(({ file, format, bytes, digest }) => ({ file, format, bytes, sha256: digest.digest('hex') }))
  }
}

/** Reads the files of an export again. Throws when one is not as it was written, or does not hold the orders. */
export async function verifyExport({ orders, checksum, files }: Export): Promise<void> {
  for (const { file, format, sha256 } of files) {
    const digest = createHash('sha256')
    for await (const part of createReadStream(file)) digest.update(part)
    if (digest.digest('hex') !== sha256)
      throw new CommandRefusal(`${file} is not as it was written; nothing was dropped.`)
    if (format !== 'jsonl') continue
    const sum = new ExportSum()
    for await (const line of linesOf(file)) sum.add(line)
    if (sum.orders !== orders || sum.checksum !== checksum)
      throw new CommandRefusal(`${file} does not hold the orders of the month; nothing was dropped.`)
  }
}

/** Lines that end with a line feed, and with nothing else that a text may hold. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = ''
  for await (const part of createReadStream(file, 'utf8')) {
    const lines = `${rest}${part}`.split('\n')
    rest = lines.pop() as string
    yield* lines
  }
  if (rest !== '') yield rest
}

// A new file that a command writes. It has its name only once it is whole and on disk: a command may be killed at any moment, and a part
// under that name would look like the whole.
import { lstat, open, rename, rm } from 'node:fs/promises'
import { constants } from 'node:os'
import { dirname } from 'node:path'
import { CommandRefusal } from './refusals.ts'

/** Until it is finished its text is in a file beside it, whose name ends in `.part`. */
export interface NewFile {
  append(text: string): Promise<void>
  /** Syncs the text to disk and gives the file its name. */
  finish(): Promise<void>
  /** Deletes it, finished or not. */
  discard(): Promise<void>
}

/** Opens a file that only its owner may read. Throws EEXIST where there is one, CommandRefusal where the part of one is. */
export async function openNewFile(path: string): Promise<NewFile> {
  await requireNone(path)
  const part = `${path}.part`
  const handle = await open(part, 'wx', 0o600).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new CommandRefusal(
      `${part} exists: another command writes ${path}, or one was stopped while it did. In that case delete the part and repeat.`
    )
  })
  let written = part
  return {
    append: text => handle.appendFile(text),
    async finish() {
      await handle.sync()
      await handle.close()
      await requireNone(path)
      await rename(part, path)
      written = path
      await syncDirectory(dirname(path))
    },
    async discard() {
      await handle.close()
      await rm(written, { force: true })
    }
  }
}

async function requireNone(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (!found) return
  const facts = { code: 'EEXIST', errno: -constants.errno.EEXIST, syscall: 'open', path }
  throw Object.assign(new Error(`${path} exists (EEXIST)`), facts)
}

// Without this a crash of the machine may lose the name of a file whose text is on disk.
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    // Some file systems have no sync of directories.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  } finally {
    await handle.close()
  }
}

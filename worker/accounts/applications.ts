// Partners' applications at the broker. When the broker refuses one, no trader can trade under it: that is logged and
// stored for the operator, and no trader's account is rejected for it.
import { forgetAppRefusal, noteAppRefused } from '../../db/platform/app-refusals.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import type { WorkerServices } from '../services.ts'

interface Application {
  dialect: string
  appId: string
}

const NOTE_EVERY_MS = 10_000
const MAX_REMEMBERED = 1_000
/** When each refused application was last noted, by this process. */
const noted = new Map<string, number>()

const keyOf = ({ dialect, appId }: Application) => `${dialect} ${appId}`

/** Logs and stores a refusal of the application, at most every ten seconds; other errors are left alone, also those of one token. */
export async function noteRefusal(
  { db, log }: Pick<WorkerServices, 'db' | 'log'>,
  application: Application,
  error: unknown
): Promise<void> {
  if (!(error instanceof BrokerError) || !isAppRefused(error.brokerCode) || error.ofOneToken) return
  const key = keyOf(application)
  if (performance.now() - (noted.get(key) ?? -NOTE_EVERY_MS) < NOTE_EVERY_MS) return
  if (noted.size >= MAX_REMEMBERED) noted.clear()
  noted.set(key, performance.now())
  const { dialect, appId } = application
  const { brokerCode } = error
  log.error({ event: 'broker_app_refused', dialect, appId, brokerCode }, 'the broker refuses an application')
  await noteAppRefused(db, { dialect, appId, brokerCode }).catch((cause: unknown) =>
    log.warn({ err: cause, dialect, appId }, 'a refused application could not be stored')
  )
}

/** The broker let the application in: a refusal that this process has noted is over. */
export async function noteAdmission(
  { db, log }: Pick<WorkerServices, 'db' | 'log'>,
  { dialect, appId }: Application
): Promise<void> {
  if (noted.size === 0 || !noted.delete(keyOf({ dialect, appId }))) return
  log.info({ dialect, appId }, 'the broker lets a refused application in again')
  await forgetAppRefusal(db, { dialect, appId }).catch((cause: unknown) =>
    log.warn({ err: cause, dialect, appId }, 'a refused application could not be cleared')
  )
}

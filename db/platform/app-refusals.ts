// Applications the broker refuses: written by workers, read by the metrics and the doctor.
import { type Db, rows } from '../postgres/connection.ts'

interface AppRefusal {
  dialect: string
  appId: string
  brokerCode: string
  firstAt: Date
  lastAt: Date
  /** Names of partners under this application, at most 5. */
  partners: string[]
}

/** Workers repeat a refusal while it lasts, far more often than this. */
const FRESH_MINUTES = 15
const MOST_LISTED = 100

/** Notes a refusal. After a while without a repeat, it counts as a new one. */
export async function noteAppRefused(
  db: Db,
  refusal: { dialect: string; appId: string; brokerCode: string }
): Promise<void> {
  await db.raw(
    `insert into broker_app_refusals as r (dialect, app_id, broker_code) values (:dialect, :appId, :brokerCode)
     on conflict (dialect, app_id) do update
       set broker_code = excluded.broker_code, last_at = now(),
           first_at = case when r.last_at < now() - make_interval(mins => :freshMinutes) then now() else r.first_at end`,
    { ...refusal, freshMinutes: FRESH_MINUTES }
  )
}

/** The broker let the application in. */
export async function forgetAppRefusal(db: Db, { dialect, appId }: { dialect: string; appId: string }): Promise<void> {
  await db('broker_app_refusals').where({ dialect, app_id: appId }).delete()
}

/** Applications refused in the last quarter of an hour, at most 100. */
export async function listAppRefusals(db: Db): Promise<AppRefusal[]> {
  return rows<AppRefusal>(
    db,
    `select r.dialect, r.app_id as "appId", r.broker_code as "brokerCode", r.first_at as "firstAt", r.last_at as "lastAt",
            array(select p.name from partners p where p.broker_dialect = r.dialect and p.broker_app_id = r.app_id
                   order by p.id limit 5) as partners
       from broker_app_refusals r
      where r.last_at > now() - make_interval(mins => :freshMinutes)
      order by r.dialect, r.app_id limit :mostListed`,
    { freshMinutes: FRESH_MINUTES, mostListed: MOST_LISTED }
  )
}

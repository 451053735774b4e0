// Commands for other terminals beside a run: the parts of this environment that such a terminal needs, and the prefix
// of a command. Only names of settings are printed: keys and passwords are among the values.
import { type Config, environment } from '../../schemas/config/config.ts'

/** Settings of this environment that another process needs too and does not find by itself; it does find those of `file`. */
export function settingsToRepeat(env: NodeJS.ProcessEnv, file: Record<string, string | undefined>): string[] {
  return Object.keys(environment.properties).filter(
    name => !ofOneProcess.has(name) && env[name] !== undefined && env[name] !== file[name]
  )
}

// A process's own place, and what is written before the command.
const ofOneProcess = new Set(['HOST', 'PORT', 'METRICS_PORT', 'DATA_DIR', 'BROKER_DIALECT', 'OPERATOR_NAME'])

/** The port of an address of plain HTTP; a URL keeps 80 to itself. */
export const portOf = (address: string): string => new URL(address).port || '80'

/**
 * The place of the api at `address`, as far as it is not the default: the addresses of sites in events and lists follow from it. A
 * BASE_URL of the environment is among the settings to repeat.
 */
export function placeOf(
  address: string,
  env: NodeJS.ProcessEnv,
  file: Record<string, string | undefined>
): Record<string, string> {
  if (env.BASE_URL !== undefined) return {}
  const { HOST, PORT } = environment.properties
  const port = portOf(address)
  return {
    ...(env.HOST === undefined || env.HOST === (file.HOST ?? HOST.default) ? {} : { HOST: env.HOST }),
    ...(port === (file.PORT ?? String(PORT.default)) ? {} : { PORT: port })
  }
}

/** This run, for lines about processes beside it. */
interface Beside {
  config: Config
  place: Record<string, string>
}

/** The operator's commands beside this run. */
export function operatorLines({ config, place }: Beside, commands: string[]): string[] {
  const settings = { ...inDataDir(config), ...place }
  return commands.map(command => `${assigned(settings)}npm run -s operator -- ${command}`)
}

/** The doctor beside this run, with the settings under which it finds the run's `broker`: without them it would warn. */
export function doctorLine({ config, place }: Beside, broker: Record<string, string>): string {
  const settings = { ...inDataDir(config), ...place, BROKER_DIALECT: config.brokerDialect, ...broker }
  return `${assigned(settings)}npm run -s operator -- doctor`
}

/** One more worker beside this run, with the settings under which it finds the run's `broker`. */
export function workerLine({ config, place }: Beside, broker: Record<string, string>): string {
  // The run's own worker has the port of the metrics.
  const metrics: Record<string, string> = config.metricsPort > 0 ? { METRICS_PORT: '0' } : {}
  const settings = {
    ...inDataDir(config),
    ...place,
    BROKER_DIALECT: config.brokerDialect,
    ...broker,
    ...metrics,
    WEBHOOK_ALLOW_PRIVATE: '1'
  }
  return `${assigned(settings)}npm run -s worker`
}

function inDataDir({ dataDir }: Config): Record<string, string> {
  return dataDir === '.data' ? {} : { DATA_DIR: dataDir }
}

function assigned(settings: Record<string, string>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${quoted(value)} `)
    .join('')
}

/** As a shell reads it back. */
function quoted(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`
}

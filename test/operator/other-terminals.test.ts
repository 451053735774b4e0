// What a run prints about other terminals: commands a shell reads back as they are meant, and no secret.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { doctorLine, operatorLines, placeOf, settingsToRepeat, workerLine } from '../../cli/run/others.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { TOKEN_KEYS } from '../support/harness.ts'

const others = suite('the commands for other terminals')

others('name what was set here and is not in .env, with no value, and not what is of one process', () => {
  const env = {
    DATABASE_URL: 'postgres://a:secret@db/x',
    TOKEN_KEYS,
    REDIS_URL: 'redis://r',
    PORT: '1',
    DATA_DIR: '/d',
    HOME: '/'
  }
  const file = { REDIS_URL: 'redis://r', DATABASE_URL: 'postgres://elsewhere/x' }
  assert.equal(settingsToRepeat(env, file), ['DATABASE_URL', 'TOKEN_KEYS'])
  assert.equal(settingsToRepeat({}, {}), [])
})

others('are read by a shell as they are meant, whatever the values', async () => {
  const dataDir = '/tmp/it\'s a "place" $HOME'
  const broker = { BROKER_URL: 'ws://127.0.0.1:9/x?a=1&l=EN' }
  const config = readConfig({
    DATABASE_URL: 'postgres://a:secret@db/x',
    TOKEN_KEYS,
    DATA_DIR: dataDir,
    METRICS_PORT: '9000',
    ...broker
  })
  const line = workerLine({ config, place: {} }, broker)
  assert.not.match(line, /secret|DATABASE|TOKEN/)
  const { stdout } = await promisify(execFile)('bash', ['-c', line.replace('npm run -s worker', 'env -0')])
  const read = Object.fromEntries(stdout.split('\0').map(entry => entry.split(/=(.*)/s)))
  assert.equal(
    [read.DATA_DIR, read.BROKER_URL, read.BROKER_DIALECT, read.METRICS_PORT],
    [dataDir, broker.BROKER_URL, 'v3', '0']
  )
  const plain = { config: readConfig(broker), place: {} }
  assert.equal(operatorLines(plain, ['orders list']), ['npm run -s operator -- orders list'])
  assert.is(
    doctorLine(plain, broker),
    "BROKER_DIALECT=v3 BROKER_URL='ws://127.0.0.1:9/x?a=1&l=EN' npm run -s operator -- doctor"
  )
  assert.is(workerLine(plain, {}), 'BROKER_DIALECT=v3 WEBHOOK_ALLOW_PRIVATE=1 npm run -s worker')
})

others('name the place of the api where another terminal would take another one', () => {
  const place = (address: string, env: Record<string, string> = {}, file: Record<string, string> = {}) =>
    placeOf(address, { ...file, ...env }, file)
  assert.equal(place('http://127.0.0.1:8080'), {})
  // The default port was busy.
  assert.equal(place('http://127.0.0.1:40711'), { PORT: '40711' })
  assert.equal(place('http://127.0.0.1:9000', { PORT: '9000', HOST: '0.0.0.0' }), { HOST: '0.0.0.0', PORT: '9000' })
  assert.equal(place('http://127.0.0.1', { PORT: '80' }), { PORT: '80' })
  // Every process reads .env.
  assert.equal(place('http://127.0.0.1:9000', {}, { PORT: '9000', HOST: '0.0.0.0' }), {})
  assert.equal(place('http://127.0.0.1:8080', {}, { PORT: '9000' }), { PORT: '8080' })
  // Among the settings to repeat.
  assert.equal(place('http://127.0.0.1:9000', { PORT: '9000', BASE_URL: 'http://trading.test' }), {})
  const line = 'PORT=40711 npm run -s operator -- events tail'
  assert.equal(operatorLines({ config: readConfig({}), place: { PORT: '40711' } }, ['events tail']), [line])
})

others.run()

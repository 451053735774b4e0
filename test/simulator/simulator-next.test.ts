// The simulated broker's newer dialect is as strict as the documents: what they do not allow is refused.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startSimulator } from '../../worker/simulator/server.ts'
import { BrokerSocket } from '../broker/broker-socket.ts'
import { appIds } from '../support/dialects.ts'
import { closeAll, onClose } from '../support/harness.ts'
import { until } from '../support/until.ts'

const simulator = await startSimulator({ tickMs: 20, revokedAppIds: ['gone-app'] })
let accounts = 500
const newId = () => `DOT${++accounts}`

interface OtpResponse {
  status: number
  body: { data?: { url: string }; errors?: { status: number; code: string; message: string }[] }
}

async function otp(
  loginid: string,
  { token = `sim-${loginid}`, appId = appIds.next as string | null, at = simulator } = {}
): Promise<OtpResponse> {
  const response = await fetch(`${at.nextUrl}/trading/v1/options/accounts/${loginid}/otp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, ...(appId === null ? {} : { [simulator.appIdHeader]: appId }) }
  })
  return { status: response.status, body: (await response.json()) as OtpResponse['body'] }
}

const codeOf = ({ status, body }: OtpResponse) => [status, body.errors?.[0]?.code]

async function open(loginid: string, at = simulator): Promise<BrokerSocket> {
  const { body } = await otp(loginid, { at })
  const [address, query] = body.data!.url.split('?') as [string, string]
  return BrokerSocket.open(address, query)
}

const rest = suite('the call for an address of a socket')

rest('refuses applications of the first dialect, unknown ones and none', async () => {
  for (const appId of ['1', '1089', 'gone-app', null])
    assert.equal(codeOf(await otp(newId(), { appId })), [401, 'Unauthorized'], String(appId))
  assert.is((await otp(newId())).status, 200)
})

rest('refuses an account that is not there, or is of another user, with 400', async () => {
  assert.equal(codeOf(await otp('DOT999999', { token: `sim-${newId()}` })), [400, 'AccountNotFound'])
})

const sockets = suite('a socket')

sockets('is the fifth of a user at most; the sixth is refused with 400, and closing one makes room', async () => {
  const loginid = newId()
  const five = await Promise.all(Array.from({ length: 5 }, () => open(loginid)))
  const refused = await open(loginid).then(
    () => 'opened',
    (error: Error) => error.message
  )
  assert.match(refused, '400')
  five[0]!.close()
  await five[0]!.eventually(() => five[0]!.closed)
  await until('room after one was closed', () => open(loginid).catch(() => null))
})

sockets('takes no barrier for a rise or a fall', async () => {
  const socket = await open(newId())
  const terms = { currency: 'USD', underlying_symbol: 'R_100', amount: 10, basis: 'stake' }
  for (const contract_type of ['CALL', 'PUT']) {
    const offered = { ...terms, contract_type, duration: 5, duration_unit: 't' }
    assert.is((await socket.call({ proposal: 1, ...offered, barrier: '+0.10' })).error.subcode, 'BarrierNotAllowed')
    const bought = await socket.call({ buy: '1', price: 10, parameters: { ...offered, barrier: '+0.10' } })
    assert.is(bought.error.subcode, 'BarrierNotAllowed')
    assert.ok((await socket.call({ proposal: 1, ...offered })).proposal.id)
  }
})

sockets('carries a hundred streams, those of ended contracts among them, until they are forgotten', async () => {
  // More calls than a second may have.
  const unlimited = await startSimulator({ tickMs: 20, limits: 'off' })
  onClose(() => unlimited.close())
  const socket = await open(newId(), unlimited)
  const parameters = {
    ...{ contract_type: 'DIGITEVEN', currency: 'USD', underlying_symbol: 'R_100', amount: 1, basis: 'stake' },
    ...{ duration: 1, duration_unit: 't' }
  }
  const buy = () => socket.call({ buy: '1', price: 1, parameters, subscribe: 1 })
  const bought = await Promise.all(Array.from({ length: 100 }, buy))
  for (const { error } of bought) assert.is(error, undefined)
  const settled = ({ buy: { contract_id: id } }: (typeof bought)[number]) =>
    socket.until(({ proposal_open_contract: each }) => each?.contract_id === id && each.is_sold === 1)
  await Promise.all(bought.map(settled))
  assert.is((await buy()).error.code, 'RateLimit')
  assert.is((await socket.call({ forget: bought[0]!.subscription.id })).forget, 1)
  assert.is((await buy()).error, undefined)
})

sockets(
  'names limits of the stake in the quote of a multiplier, and in contracts_for only those of turbos',
  async () => {
    const socket = await open(newId())
    const { contracts_for } = await socket.call({ contracts_for: 'R_100' })
    for (const offer of contracts_for.available)
      assert.equal([offer.min_stake, offer.max_stake], [undefined, undefined])
    const terms = { contract_type: 'MULTUP', currency: 'USD', underlying_symbol: 'R_100', amount: 10, basis: 'stake' }
    const { proposal } = await socket.call({ proposal: 1, ...terms, multiplier: 40 })
    assert.equal(proposal.validation_params.stake, { min: '1.00', max: '2000.00' })
  }
)

sockets.after(() => simulator.close())
sockets.after(closeAll)
rest.run()
sockets.run()

// What earlier versions stored or handed out, written down as they wrote it: this one has to read it, and to make the same of the same.
// Whoever has to change a line of these breaks an upgrade: partners hold keys and cursors, rows hold hashes and secrets, and processes of
// both versions run beside each other.
import { createSecretKey } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { readCursor, writeCursor } from '../../db/events/cursor.ts'
import { hashTerms } from '../../db/orders/inserting.ts'
import { hashSecret, openVault, parseApiKey } from '../../db/platform/crypto.ts'
import { linesOf, readHint } from '../../db/platform/hints.ts'
import { readListCursor, writeListCursor } from '../../db/platform/list-cursors.ts'
import { isPassword } from '../../db/platform/passwords.ts'
import { matches } from '../../schemas/checks/validator.ts'
import { type QueueName, queues } from '../../schemas/jobs.ts'

const earlier = suite('what an earlier version wrote')

const pepper = createSecretKey(Buffer.alloc(32, 9))

earlier('opens: a sealed token, and the hash of a password', async () => {
  const vault = openVault(`t1:${Buffer.alloc(32, 7).toString('base64')}`)
  const sealed = Buffer.from('23/vDNwUc9Lplbv5DBv6U4Ne8mWDbWeSdwYcN2b/FjHThkCYMDOmVEPS', 'base64')
  assert.is(vault.open({ keyId: 't1', sealed }, 'broker_accounts:acc_1'), 'sim-VRTC1-demo')
  const known = '$argon2id$v=19$m=19456,t=2,p=1$kBgzVLUociQisG4Ql9Z1bg$TqgLWwVEEkNbiB97g2E4rvJk+KExJw5OAg9yOFEm4aE'
  assert.ok(await isPassword('ptn_1', known, 'a-good-Passw0rd-9'))
})

earlier('is found: keys, and the hashes of secrets', () => {
  const live = parseApiKey('service_live_1f177ac12ac7b578_1ce2dca7a243eeb095b3d8248b5410bb32da0dafda3f9e7a')
  const test = parseApiKey('service_test_7a76ad729226ffe1_659b1ce30abcc3d5878ff3d62e2877b542948b7447cd180c')
  assert.equal(
    [live, test].map(key => [key?.lookup, key?.test]),
    [
      ['1f177ac12ac7b578', false],
      ['7a76ad729226ffe1', true]
    ]
  )
  const hash = 'f394b09ed3016ce3cfcc419e549fdc97d04c3a54f230f313196a10f31cefcef7'
  assert.is(hashSecret(pepper, 'session:abc').toString('hex'), hash)
})

earlier('is the same order: the hash of its terms, by which a repeat is known', () => {
  const none = {
    contractType: null,
    direction: null,
    multiplier: null,
    duration: null,
    durationUnit: null,
    barrier: null,
    stopLoss: null,
    takeProfit: null
  }
  const binary = { ...none, contractType: 'DIGITOVER', stake: '1.50', duration: 5, durationUnit: 't', barrier: '3' }
  const multiplier = { ...none, direction: 'up', multiplier: '100', stake: '5.00', stopLoss: '2.50' } as const
  assert.equal(
    [
      hashTerms('jörg', { kind: 'BINARY', asset: 'R_100', ...binary }),
      hashTerms('jörg', { kind: 'MULTIPLIER', asset: 'R_100', ...multiplier })
    ].map(hash => hash.toString('hex')),
    [
      'a4042934d4a285deff9bf440b21cfb8af6488cf5a03dff05711eebc403e48a29',
      '2b90252e05c530ff773f650555b68853131348c6ebbaa77fa9628d46d3e51f8e'
    ]
  )
})

earlier('goes on: cursors of events, also those of a browser, and of lists', () => {
  const point = { epoch: 3, position: 123_456_789, day: 20_785 }
  for (const cursor of ['Ljqpi2B6LURzgwsfSwZeYQ', 'nyz-uLNabgJLWNmO4g-C8Y_nxZbQg0EiufJ2JaA-NrqX4AK1gOnKb7kkOz8'])
    assert.equal(readCursor(pepper, 'ptn_1', cursor), point)
  // A process of the earlier version reads it as well.
  assert.is(writeCursor(pepper, 'ptn_1', point), 'Ljqpi2B6LURzgwsfSwZeYQ')
  const list = { name: 'orders', partnerId: 'ptn_1', filters: { status: 'OPEN', kind: undefined } }
  const cursor = 'WzE3OTU4NDY2NDU5ODksIm9yZF8xIiwiMGwyOUdqOXJUWjEiXQ'
  assert.equal(readListCursor(list, cursor, 2), [1_795_846_645_989, 'ord_1'])
  assert.is(writeListCursor(list, [1_795_846_645_989, 'ord_1']), cursor)
})

earlier('wakes: the lines of a hint', () => {
  const carried = { topic: 'order', id: 'ord_1', carried: '["x",1]' }
  const lines = ['order+ ord_1 ["x",1]', 'order ord_1']
  assert.is(linesOf(carried), lines.join('\n'))
  assert.equal(lines.map(readHint), [carried, { topic: 'order', id: 'ord_1' }])
})

// What an earlier version stored, in the order of their forms.
const jobs: Partial<Record<QueueName, object[]>> = {
  'order.place': [{ orderId: 'ord_1', accountId: 'VRTC1' }, { accountIds: ['VRTC1', 'CR2'] }],
  'order.copy': [{ orderId: 'ord_1', accountId: 'VRTC1' }, { accountIds: ['VRTC1', 'CR2'] }],
  ask: [{ brokerRequestId: 'ask_01m8gctvf8fqer8bx3d16j3ndn' }],
  sell: [{ brokerRequestId: 'ask_01m8gctvf8fqer8bx3d16j3ndn' }],
  'template.deploy': [{ deploymentId: 'dep_01m8gctvf8fqer8bx3d16j3ndn', revision: 1 }],
  'copy.fanout': [
    { orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn' },
    {
      orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn',
      after: 'fol_01m8gctvf8fqer8bx3d16j3ndn',
      upTo: 'fol_01m8gctvf8fqer8bx3d16j3ndn'
    }
  ],
  'copy.close': [
    { orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn' },
    { orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn', after: 'fol_01m8gctvf8fqer8bx3d16j3ndn' }
  ],
  'copy.limits': [
    { orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn' },
    { orderId: 'ord_01m8gctvf8fqer8bx3d16j3ndn', after: 'fol_01m8gctvf8fqer8bx3d16j3ndn' }
  ]
}

earlier('is worked on: the data of its jobs', () => {
  for (const [name, forms] of Object.entries(jobs) as [QueueName, object[]][])
    for (const data of forms) assert.ok(matches(queues[name].data, data), `${name} ${JSON.stringify(data)}`)
  const committed = Object.entries(queues).filter(([, { wake }]) => wake === 'commit')
  assert.equal(
    committed.map(([name]) => name).filter(name => !Object.hasOwn(jobs, name)),
    []
  )
})

earlier.run()

// Ending subscriptions at the broker: each once, within the call budget, and again when the broker was too busy.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { BrokerError } from '../../worker/broker/broker-error.ts'
import { unsent } from '../../worker/broker/transport/calls.ts'
import { Forgetting } from '../../worker/broker/transport/forgetting.ts'
import { upTo } from '../support/turns.ts'
import { keptLog } from './broker-script.ts'

const forgetting = suite('forgetting streams')
const { log } = keptLog()

function rig({ failures = [] as BrokerError[], budget = true } = {}) {
  const sent: string[] = []
  const waiting: (() => void)[] = []
  const backOffs = { count: 0 }
  const streams = new Forgetting({
    log,
    async send(id) {
      sent.push(id)
      const failure = failures.shift()
      if (failure) throw failure
    },
    budget: budget
      ? {
          take: () => new Promise<void>(resolve => void waiting.push(resolve)),
          backOff: () => void backOffs.count++
        }
      : { take: () => undefined, backOff() {} }
  })
  return { streams, sent, backOffs, grant: () => waiting.shift()?.() }
}

forgetting(
  'leaves each stream counted until the broker has ended it, and spends a call of the budget on it',
  async () => {
    const { streams, sent, grant } = rig()
    const ended = [streams.add('one'), streams.add('two')]
    await new Promise(resolve => setImmediate(resolve))
    assert.equal([sent, streams.size], [[], 2])
    grant()
    await ended[0]
    assert.equal([sent, streams.size], [['one'], 1])
    grant()
    await ended[1]
    assert.equal([sent, streams.size], [['one', 'two'], 0])
  }
)

forgetting('forgets a stream once, however often its late updates arrive', async () => {
  const { streams, sent } = rig({ budget: false })
  await Promise.all([streams.add('one'), streams.add('one')])
  await streams.add('one')
  assert.equal(sent, ['one'])
  assert.ok(streams.has('one'))
})

forgetting('goes on past any number of streams', async () => {
  const { streams, sent } = rig({ budget: false })
  for (let each = 0; each < 3_000; each++) await streams.add(`stream-${each}`)
  assert.is(sent.length, 3_000)
})

forgetting('tries again, and calls less often, when the broker was called too often', async () => {
  const slow = new BrokerError('BROKER_UPSTREAM', 'You have reached the rate limit.', { brokerCode: 'RateLimit' })
  const { streams, sent, backOffs, grant } = rig({ failures: [slow] })
  const ended = streams.add('one')
  grant()
  await upTo(() => sent.length === 1 && streams.size === 1)
  await upTo(() => {
    grant()
    return sent.length === 2
  })
  await ended
  assert.equal([backOffs.count, streams.size], [1, 0])
})

forgetting('keeps nobody waiting once the connection is gone', async () => {
  const gone = unsent('The connection to the broker is gone.', 'NotConnected')
  const { streams, grant } = rig({ failures: [gone] })
  const ended = [streams.add('one'), streams.add('two')]
  grant()
  streams.close()
  await Promise.all(ended)
  await streams.add('three')
  assert.is(streams.size, 0)
})

forgetting.run()

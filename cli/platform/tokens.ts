// operator tokens: the keys that seal broker tokens at rest.
import { SingleBar } from 'cli-progress'
import type { Command } from 'commander'
import { resealReportTokens } from '../../db/analytics/report-tokens.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { resealPepper } from '../../db/platform/crypto.ts'
import { resealResponses } from '../../db/platform/idempotency.ts'
import { countSealed, resealStep } from '../../db/platform/token-rotation.ts'
import { resealWebhooks } from '../../db/webhooks/endpoints.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { lines, table } from '../terminal/output.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

const STEP = 200
const IDS_SHOWN = 20

export function addTokens(program: Command): void {
  const tokens = program.command('tokens').description('The keys that seal broker tokens')

  tokens
    .command('rotate')
    .description('Encrypt every stored token again, with the first key of TOKEN_KEYS, while everything runs')
    .addHelpText(
      'after',
      `
To change the key:
  1. put the new key first, keep the old one behind it: TOKEN_KEYS=new:…,old:…
  2. restart every worker with it, then every api: the workers must be able to open what the apis seal
  3. run this; interrupted, it goes on where it was when run again
  4. once nothing remains under the old key, take it out of TOKEN_KEYS
${examples('tokens rotate', 'tokens rotate --json')}`
    )
    .action(
      withStore(rotate, {
        acts: true,
        show: ({ remaining, ...rest }) => `${lines(rest)}\n\n${table(remaining)}`
      })
    )
}

async function rotate({ db, vault, actor, json }: Opened) {
  const old = (await countSealed(db)).filter(({ keyId }) => keyId !== vault.keyId)
  const unknown = old.filter(({ keyId }) => !vault.keyIds.includes(keyId))
  if (unknown.length > 0)
    throw new CommandRefusal(
      `Tokens are sealed under ${unknown.map(({ keyId }) => `'${keyId}'`).join(', ')}, which TOKEN_KEYS does not have: add it behind the first key.`
    )
  const total = old.reduce((sum, { accounts }) => sum + accounts, 0)
  const details = { keyId: vault.keyId, accounts: total }
  await recordAudit(db, { actor, action: 'tokens.rotate', target: vault.keyId, details })

  const bar =
    process.stderr.isTTY && !json && total > 0
      ? new SingleBar({ format: 'sealing {bar} {value}/{total} accounts, {eta} s left', stream: process.stderr })
      : undefined
  bar?.start(total, 0)
  const done = { resealed: 0, overtaken: 0 }
  const unreadable: string[] = []
  for (const { keyId } of old) {
    for (let after: string | null = ''; after !== null; ) {
      const step = await resealStep(db, vault, { oldKeyId: keyId, after, limit: STEP })
      done.resealed += step.resealed
      done.overtaken += step.overtaken
      unreadable.push(...step.unreadable)
      bar?.increment(step.resealed + step.overtaken + step.unreadable.length)
      after = step.after
    }
  }
  let answers = 0
  for (const { keyId } of old) {
    let step: Awaited<ReturnType<typeof resealResponses>> | undefined
    do {
      step = await resealResponses(db, vault, { oldKeyId: keyId, after: step?.after ?? null, limit: STEP })
      answers += step.resealed
      unreadable.push(...step.unreadable.map(({ partnerId, key }) => `${partnerId}:${key}`))
    } while (step.after !== null)
  }
  let webhooks = 0
  for (const { keyId } of old) {
    for (let after: string | null = ''; after !== null; ) {
      const step = await resealWebhooks(db, vault, { oldKeyId: keyId, after, limit: STEP })
      webhooks += step.resealed
      unreadable.push(...step.unreadable)
      after = step.after
    }
  }
  let reports = 0
  for (const { keyId } of old) {
    for (let after: string | null = ''; after !== null; ) {
      const step = await resealReportTokens(db, vault, { oldKeyId: keyId, after, limit: STEP })
      reports += step.resealed
      unreadable.push(...step.unreadable)
      after = step.after
    }
  }
  const pepper = await resealPepper(db, vault)
  bar?.stop()
  await recordAudit(db, {
    actor,
    action: 'tokens.rotated',
    target: vault.keyId,
    details: { ...done, answers, webhooks, reports, pepper, unreadable: unreadable.length }
  })
  if (unreadable.length > 0)
    throw new CommandRefusal(
      `${done.resealed} tokens were encrypted again; ${unreadable.length} cannot be decrypted and stay as they are: ${unreadable.slice(0, IDS_SHOWN).join(' ')}${unreadable.length > IDS_SHOWN ? ' …' : ''}. Their traders need a new exchange, webhooks a new secret, partners a new token for reports; kept responses end within a day.`
    )
  return { keyId: vault.keyId, ...done, answers, webhooks, reports, pepper, remaining: await countSealed(db) }
}

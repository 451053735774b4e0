// AI: a signal for an asset, and the analysis of candles a bot brings along. Numbers are computed by the
// service; a language model, where one is configured, only words the reasons.
import type { FromSchema } from 'json-schema-to-ts'
import { asset, nullable, timestamp, traderExternalId } from './fields/fields.ts'

// What prices are computed with must stay finite; no market prints beyond these.
const priceIn = { type: 'number', minimum: 1e-9, maximum: 1e12, examples: [1219.5] } as const

const direction = {
  type: 'string',
  enum: ['CALL', 'PUT', 'NEUTRAL'],
  description: 'CALL: up. PUT: down. NEUTRAL: no clear direction.',
  examples: ['CALL']
} as const
export type Direction = (typeof direction.enum)[number]

const confidence = {
  type: 'number',
  minimum: 0,
  maximum: 1,
  description: 'How far the indicators agree, from 0 to 1; not a probability of winning.',
  examples: [0.62]
} as const

const reading = (description: string, example: number) =>
  ({
    type: ['number', 'null'],
    description: `${description}; null with too few candles.`,
    examples: [example]
  }) as const

const indicators = {
  rsi: reading('Relative strength index over 14 candles', 58.3),
  macd: reading('MACD line, 12 and 26 candles', 0.41),
  macdSignal: reading('MACD signal line, 9 candles', 0.35),
  macdHistogram: reading('MACD line minus its signal line', 0.06),
  bollingerUpper: reading('Upper Bollinger band, 20 candles and 2 deviations', 1224.1),
  bollingerMiddle: reading('Middle Bollinger band', 1218.9),
  bollingerLower: reading('Lower Bollinger band', 1213.7),
  emaFast: reading('Exponential moving average over 9 candles', 1219.8),
  emaSlow: reading('Exponential moving average over 21 candles', 1218.6),
  atr: reading('Average true range over 14 candles', 1.35),
  lastPrice: reading('Latest price', 1219.5)
} as const

export const Indicators = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(indicators) as (keyof typeof indicators)[],
  properties: indicators,
  description: 'The indicators computed from the candles.'
} as const
export type Indicators = { [Name in keyof typeof indicators]: number | null }

const model = {
  type: 'string',
  description: "Who worded the reasons: 'built-in', or the language model's name. The numbers are always built-in.",
  examples: ['built-in']
} as const

const lines = (description: string, example: string) =>
  ({
    type: 'array',
    items: { type: 'string', maxLength: 400, description: 'One sentence or two.', examples: [example] },
    description
  }) as const

export const SignalRequest = {
  type: 'object',
  required: ['asset'],
  properties: {
    asset,
    traderExternalId: {
      ...traderExternalId,
      description:
        "The trader whose live balance sizes the stake, at the broker's exchange rate where it is not in USD."
    },
    balance: {
      type: 'number',
      minimum: 0,
      description: "Balance in USD to size the stake with; overrides the trader's live balance.",
      examples: [250]
    }
  },
  examples: [{ asset: 'R_100', balance: 250 }]
} as const
export type SignalRequest = FromSchema<typeof SignalRequest>

const suggestion = {
  contractType: { type: 'string', enum: ['CALL', 'PUT'], description: 'Contract to buy.', examples: ['CALL'] },
  duration: { type: 'integer', minimum: 1, description: 'Length in durationUnit.', examples: [5] },
  durationUnit: { type: 'string', enum: ['t', 's', 'm', 'h', 'd'], description: 'Unit of duration.', examples: ['m'] },
  stake: {
    type: 'number',
    minimum: 0.35,
    description:
      'In USD: about one percent of the balance, the minimum stake where that is more, or when no balance is known.',
    examples: [2.05]
  }
} as const

export const Backtest = {
  type: 'object',
  additionalProperties: false,
  required: ['candles', 'signals', 'wins', 'winRatePct'],
  properties: {
    candles: { type: 'integer', description: 'Candles the rules were tried on.', examples: [999] },
    signals: { type: 'integer', description: 'How often they gave a direction.', examples: [412] },
    wins: {
      type: 'integer',
      description: 'How often that was right by the end of a contract as suggested.',
      examples: [203]
    },
    winRatePct: {
      type: ['number', 'null'],
      description: 'wins of signals in percent; null without signals.',
      examples: [49.27]
    }
  },
  description: 'What the rules of the signal achieved on the last candles, computed. It promises nothing.'
} as const
export interface Backtest {
  candles: number
  signals: number
  wins: number
  winRatePct: number | null
}

export const Signal = {
  type: 'object',
  additionalProperties: false,
  required: [
    'asset',
    'direction',
    'confidence',
    'suggestion',
    'rationale',
    'indicators',
    'breakEvenPct',
    'backtest',
    'model',
    'generatedAt',
    'validUntil'
  ],
  properties: {
    asset,
    direction,
    confidence,
    suggestion: {
      type: ['object', 'null'],
      additionalProperties: false,
      required: ['contractType', 'duration', 'durationUnit', 'stake'],
      properties: suggestion,
      description:
        'An order that fits the signal; null when it is NEUTRAL, when the balance cannot carry the minimum stake, where the broker has no exchange rate to the currency of the account, and on synthetic indices, whose prices have no memory.'
    },
    rationale: lines('Why, in words.', 'The short average is above the long one.'),
    indicators: Indicators,
    breakEvenPct: {
      type: ['number', 'null'],
      description:
        'Share of such contracts that must win, in percent, for the suggestion to lose nothing at the broker’s present price; null without a suggestion or a price.',
      examples: [54.05]
    },
    backtest: Backtest,
    model,
    generatedAt: timestamp,
    validUntil: { ...timestamp, description: 'Request the next signal after this: by then a newer candle has closed.' }
  }
} as const

export interface Signal {
  asset: string
  direction: Direction
  confidence: number
  suggestion: { contractType: 'CALL' | 'PUT'; duration: number; durationUnit: 't' | 'm'; stake: number } | null
  rationale: string[]
  indicators: Indicators
  breakEvenPct: number | null
  backtest: Backtest
  model: string
  generatedAt: string
  validUntil: string
}

const symbol = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
  description: 'What the candles are of, in the words of the bot.',
  examples: ['R_100']
} as const

export const Candle = {
  type: 'object',
  required: ['epoch', 'open', 'high', 'low', 'close'],
  properties: {
    epoch: {
      type: 'number',
      minimum: 0,
      maximum: 1e14,
      description: 'Start of the candle, in seconds (or milliseconds, for all of them).',
      examples: [1795248000]
    },
    open: { ...priceIn, description: 'First price.', examples: [1218.2] },
    high: { ...priceIn, description: 'Highest price; below low it is refused.', examples: [1220.1] },
    low: { ...priceIn, description: 'Lowest price.', examples: [1217.9] },
    close: { ...priceIn, description: 'Last price.', examples: [1219.4] }
  }
} as const

export const BotAnalysisRequest = {
  type: 'object',
  required: ['symbol', 'currentPrice', 'recentCandles'],
  properties: {
    symbol,
    currentPrice: { ...priceIn, description: 'The price now.' },
    recentCandles: {
      type: 'array',
      maxItems: 200,
      description:
        'Candles of one length. They are put in the order of their epochs; of two with the same epoch the later entry counts.',
      items: Candle
    },
    strategyHint: {
      type: 'string',
      maxLength: 500,
      description:
        'What the bot is about, in words. It may bring a strategy to the front of the list (trend, reversion, breakout); it changes no number.',
      examples: ['trend following']
    }
  },
  examples: [
    {
      symbol: 'R_100',
      currentPrice: 1219.5,
      recentCandles: [{ epoch: 1795248000, open: 1218.2, high: 1220.1, low: 1217.9, close: 1219.4 }]
    }
  ]
} as const
export type BotAnalysisRequest = FromSchema<typeof BotAnalysisRequest>

export const Strategy = {
  type: 'object',
  additionalProperties: false,
  required: ['name', 'direction', 'confidence', 'why'],
  properties: {
    name: { type: 'string', description: 'Name of the strategy.', examples: ['Trend following'] },
    direction,
    confidence,
    why: { type: 'string', maxLength: 400, description: 'Why, in words.', examples: ['The averages rise.'] }
  }
} as const

export const BotAnalysis = {
  type: 'object',
  additionalProperties: false,
  required: [
    'symbol',
    'trend',
    'volatilityPct',
    'support',
    'resistance',
    'indicators',
    'strategies',
    'risks',
    'model',
    'generatedAt'
  ],
  properties: {
    symbol,
    trend: {
      type: 'string',
      enum: ['UP', 'DOWN', 'SIDEWAYS'],
      description: 'Where the averages point.',
      examples: ['UP']
    },
    volatilityPct: reading('Standard deviation of the change from candle to candle, in percent', 0.11),
    support: nullable({
      type: 'number',
      description: 'Nearest turning point below the price; null when there is none.',
      examples: [1214.2]
    } as const),
    resistance: nullable({
      type: 'number',
      description: 'Nearest turning point above the price; null when there is none.',
      examples: [1223.8]
    } as const),
    indicators: Indicators,
    strategies: {
      type: 'array',
      description: 'How the common strategies read these candles, the surest first.',
      items: Strategy
    },
    risks: lines('What to be careful about.', 'Only a few candles were given.'),
    model,
    generatedAt: timestamp
  }
} as const

export interface Strategy {
  name: string
  direction: Direction
  confidence: number
  why: string
}

export interface BotAnalysis {
  symbol: string
  trend: 'UP' | 'DOWN' | 'SIDEWAYS'
  volatilityPct: number | null
  support: number | null
  resistance: number | null
  indicators: Indicators
  strategies: Strategy[]
  risks: string[]
  model: string
  generatedAt: string
}

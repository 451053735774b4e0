// Rows of bots, as lists and pages show them, and the columns they are read by.
import type { BotStatus } from '../../schemas/marketplace/creator.ts'

/** What a list shows of a bot: without the long texts, which lie apart from the row. */
export interface ListedBot {
  id: string
  partner_id: string
  party_id: string
  /** Whether it is of a test side: seen, sold and reviewed there alone. */
  test: boolean
  status: BotStatus
  name: string
  description: string
  category: string
  risk_level: string
  strategy_type: string
  supported_assets: string[]
  screenshots: string[]
  one_time_price: string | null
  monthly_price: string | null
  version: string
  rating: string
  rating_count: number
  downloads: number
  sales: number
  subscribers: number
  gross: string
  net: string
  created_at: Date
  updated_at: Date
  published_at: Date | null
  creator_name: string
}

export interface BotRow extends ListedBot {
  long_description: string | null
  demo_video_url: string | null
  /** The operator has suspended its creator's partner: it is not sold meanwhile. */
  creator_suspended: boolean
}

/** The columns of a list. Requires the bots as b, their partners as p, their creators' profiles as c. */
export const listedColumns = `b.id, b.partner_id, b.party_id, b.test, b.status, b.name, b.description, b.category,
  b.risk_level, b.strategy_type, b.supported_assets, b.screenshots, b.one_time_price, b.monthly_price, b.version,
  b.rating, b.rating_count, b.downloads, b.sales, b.subscribers, b.gross, b.net, b.created_at, b.updated_at, b.published_at,
  coalesce(nullif(c.display_name, ''), case when b.party_id = b.partner_id then p.name else 'Independent creator' end) as creator_name`

/** Everything about a bot but its code. */
export const botColumns = `${listedColumns}, b.long_description, b.demo_video_url, p.suspended_at is not null as creator_suspended`

// All partners see the marketplace, but a trader's name belongs to its partner: a creator has the name of its public
// profile.
export const withCreators = `join partners p on p.id = b.partner_id
  left join community_profiles c on c.party_id = b.party_id and c.is_public`

export const fromBots = `from marketplace_bots b ${withCreators}`

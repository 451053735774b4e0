// The marketplace: bots, what is listed of them, reviews, purchases and subscriptions. A party is a trader or,
// where no trader's session came with the call, the partner itself; partner_id is whose money moves.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table marketplace_bots (
      id                 text collate "C" primary key,
      partner_id         text collate "C" not null references partners,
      party_id           text collate "C" not null,
      status             text not null default 'DRAFT' check (status in ('DRAFT', 'PUBLISHED', 'RETIRED')),
      name               text not null check (length(name) between 3 and 120),
      description        text not null check (length(description) between 1 and 500),
      long_description   text check (length(long_description) <= 5000),
      category           text not null check (category in ('trend', 'scalp', 'grid', 'ai', 'arbitrage', 'custom')),
      risk_level         text not null check (risk_level in ('low', 'medium', 'high')),
      strategy_type      text not null check (length(strategy_type) between 1 and 120),
      supported_assets   text[] not null check (cardinality(supported_assets) <= 100),
      screenshots        text[] not null check (cardinality(screenshots) <= 20),
      demo_video_url     text check (length(demo_video_url) <= 2048),
      one_time_price     usd check (one_time_price >= 0),
      monthly_price      usd check (monthly_price >= 0),
      version            text not null check (length(version) between 1 and 32),
      code               text not null check (length(code) >= 1),
      -- Counted in the transactions of reviews and sales, so that lists need not count.
      rating_sum         int not null default 0,
      rating_count       int not null default 0 check (rating_count >= 0),
      rating             numeric not null generated always as
                           (case when rating_count = 0 then 0 else round(rating_sum::numeric / rating_count, 2) end) stored,
      downloads          int not null default 0,
      sales              int not null default 0 check (sales >= 0),
      subscribers        int not null default 0 check (subscribers >= 0),
      gross              usd not null default 0,
      net                usd not null default 0,
      created_at         timestamptz(3) not null default now(),
      updated_at         timestamptz(3) not null default now(),
      -- the first time; a bot that comes back from retirement is not new again
      published_at       timestamptz(3),
      check ((status = 'DRAFT') = (published_at is null))
    );
    create index marketplace_bots_party on marketplace_bots (party_id, created_at desc, id desc);
    create index marketplace_bots_partner on marketplace_bots (partner_id, created_at desc, id desc);
    -- One per sort. The filters ride along, so that a page, however deep, is found within the index.
    create index marketplace_bots_newest on marketplace_bots (published_at desc, id desc)
      include (category, risk_level) where status = 'PUBLISHED';
    create index marketplace_bots_rated on marketplace_bots (rating desc, rating_count desc, id desc)
      include (category, risk_level) where status = 'PUBLISHED';
    create index marketplace_bots_downloaded on marketplace_bots (downloads desc, id desc)
      include (category, risk_level) where status = 'PUBLISHED';

    -- The words of each published bot. Beside the bots, because their counters change with every sale, and each
    -- new version of a row is entered into every index of its table.
    create table marketplace_words (
      bot_id      text collate "C" primary key references marketplace_bots,
      category    text not null,
      risk_level  text not null,
      words       tsvector not null
    );
    create index marketplace_words_words on marketplace_words using gin (words) with (fastupdate = off);

    -- Counts every change of what is listed, in the transaction that makes it: a total counted at a version
    -- holds as long as the version does.
    create table marketplace_listing (
      single   boolean primary key default true check (single),
      version  bigint not null
    );
    insert into marketplace_listing (version) values (1);

    create table marketplace_reviews (
      id          text collate "C" primary key,
      bot_id      text collate "C" not null references marketplace_bots,
      partner_id  text collate "C" not null references partners,
      party_id    text collate "C" not null,
      rating      int not null check (rating between 1 and 5),
      comment     text check (length(comment) <= 2000),
      created_at  timestamptz(3) not null default now(),
      unique (bot_id, party_id)
    );
    create index marketplace_reviews_bot on marketplace_reviews (bot_id, created_at desc, id desc);

    create table marketplace_purchases (
      id             text collate "C" primary key,
      bot_id         text collate "C" not null references marketplace_bots,
      partner_id     text collate "C" not null references partners,
      party_id       text collate "C" not null,
      price          usd not null check (price >= 0),
      -- the platform's share at the time, which a refund gives back
      fee            usd not null check (fee between 0 and price),
      status         text not null default 'COMPLETED' check (status in ('COMPLETED', 'REFUNDED')),
      purchased_at   timestamptz(3) not null default now(),
      refunded_at    timestamptz(3),
      refund_reason  text check (length(refund_reason) between 3 and 500),
      check ((status = 'REFUNDED') = (refunded_at is not null and refund_reason is not null))
    );
    -- A party buys a bot once, until it is refunded.
    create unique index marketplace_purchases_once on marketplace_purchases (bot_id, party_id) where status = 'COMPLETED';
    create index marketplace_purchases_party on marketplace_purchases (party_id, purchased_at desc, id desc);
    create index marketplace_purchases_partner on marketplace_purchases (partner_id, purchased_at desc, id desc);
    create index marketplace_purchases_newest on marketplace_purchases (purchased_at desc, id desc);

    create table marketplace_subscriptions (
      id                    text collate "C" primary key,
      bot_id                text collate "C" not null references marketplace_bots,
      partner_id            text collate "C" not null references partners,
      party_id              text collate "C" not null,
      -- as it was when subscribing: a creator's new price is for new subscribers
      price                 usd not null check (price >= 0),
      status                text not null default 'ACTIVE' check (status in ('ACTIVE', 'PAST_DUE', 'CANCELED')),
      -- Months paid so far. Each ends on the day and time of created_at, or on its month's last day.
      periods               int not null default 1 check (periods >= 1),
      current_period_end    timestamptz(3) not null,
      cancel_at_period_end  boolean not null default false,
      created_at            timestamptz(3) not null default now(),
      canceled_at           timestamptz(3),
      check ((status = 'CANCELED') = (canceled_at is not null))
    );
    create unique index marketplace_subscriptions_once on marketplace_subscriptions (bot_id, party_id)
      where status <> 'CANCELED';
    create index marketplace_subscriptions_party on marketplace_subscriptions (party_id, created_at desc, id desc);
    create index marketplace_subscriptions_due on marketplace_subscriptions (current_period_end, id)
      where status <> 'CANCELED';

    -- Who requested the payout; the earnings are its partner's.
    alter table payouts add column party_id text collate "C";
    update payouts set party_id = partner_id;
    alter table payouts alter column party_id set not null;
    create index payouts_party on payouts (party_id, requested_at desc, id desc);
  `)
}

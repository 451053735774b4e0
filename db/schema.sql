-- The tables as the migrations leave them, written by `make schema`. The queue's own tables (schema pgboss) and the daily
-- partitions of logs are left out.

create table account_leases (
  account_id text not null,
  worker text collate "C" not null,
  leased_at timestamp with time zone default clock_timestamp() not null,
  held_back text,
  held_back_at timestamp with time zone,
  constraint account_leases_pkey PRIMARY KEY (account_id)
);
CREATE INDEX account_leases_worker ON account_leases USING btree (worker);

create table analytics_checks (
  single boolean default true not null,
  checked_at timestamp with time zone default now() not null,
  samples integer not null,
  differences integer not null,
  constraint analytics_checks_pkey PRIMARY KEY (single),
  constraint analytics_checks_single_check CHECK (single)
);

create table analytics_closes (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  quarter timestamp with time zone not null,
  numbers integer[] not null,
  closed_at timestamp with time zone[] not null,
  stake numeric[] not null,
  pnl numeric[] not null,
  markup numeric[] not null,
  markup_unknown integer not null,
  stake_units bigint[],
  pnl_units bigint[],
  markup_units bigint[],
  constraint analytics_closes_pkey PRIMARY KEY (partner_id, account_mode, currency, quarter)
);
CREATE TRIGGER count_delete AFTER DELETE ON analytics_closes REFERENCING OLD TABLE AS was_listed FOR EACH STATEMENT EXECUTE FUNCTION count_closes_delete();
CREATE TRIGGER count_insert AFTER INSERT ON analytics_closes REFERENCING NEW TABLE AS now_listed FOR EACH STATEMENT EXECUTE FUNCTION count_closes_insert();
CREATE TRIGGER count_update AFTER UPDATE ON analytics_closes REFERENCING OLD TABLE AS was_listed NEW TABLE AS now_listed FOR EACH STATEMENT EXECUTE FUNCTION count_closes_update();
CREATE TRIGGER forget_steps AFTER TRUNCATE ON analytics_closes FOR EACH STATEMENT EXECUTE FUNCTION forget_steps();

create table analytics_closes_until (
  single boolean default true not null,
  until timestamp with time zone not null,
  since timestamp with time zone default now() not null,
  constraint analytics_closes_until_pkey PRIMARY KEY (single),
  constraint analytics_closes_until_single_check CHECK (single)
);

create table analytics_day_traders (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  numbers integer[] not null,
  firsts smallint[] not null,
  lasts smallint[] not null,
  begun integer[] not null,
  ended integer[] not null,
  constraint analytics_day_traders_pkey PRIMARY KEY (partner_id, account_mode, day, currency)
);

create table analytics_days (
  partner_id text collate "C" not null,
  grouping_by text collate "C" not null,
  account_mode text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  value text collate "C" not null,
  contracts integer not null,
  open integer not null,
  stake numeric not null,
  payout numeric not null,
  markup numeric not null,
  markup_unknown integer not null,
  commission numeric not null,
  traders_pnl numeric not null,
  traders integer not null,
  constraint analytics_days_pkey PRIMARY KEY (partner_id, grouping_by, account_mode, day, currency, value)
);

create table analytics_late_closes (
  partner_id text collate "C" not null,
  quarter timestamp with time zone not null
);

create table analytics_late_day_traders (
  partner_id text collate "C" not null,
  day date not null
);

create table analytics_late_days (
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  day date not null
);

create table analytics_late_quarters (
  partner_id text collate "C" not null,
  quarter timestamp with time zone not null
);

create table analytics_quarters (
  partner_id text collate "C" not null,
  grouping_by text collate "C" not null,
  account_mode text collate "C" not null,
  quarter timestamp with time zone not null,
  currency text collate "C" not null,
  value text collate "C" not null,
  contracts integer not null,
  open integer not null,
  stake numeric not null,
  payout numeric not null,
  markup numeric not null,
  markup_unknown integer not null,
  commission numeric not null,
  traders_pnl numeric not null,
  traders integer[] not null,
  constraint analytics_quarters_pkey PRIMARY KEY (partner_id, grouping_by, account_mode, quarter, currency, value),
  constraint analytics_quarters_account_mode_check CHECK ((account_mode = ANY (ARRAY['REAL'::text, 'DEMO'::text, 'ALL'::text]))),
  constraint analytics_quarters_grouping_by_check CHECK ((grouping_by = ANY (ARRAY[''::text, 'asset'::text, 'contractType'::text, 'kind'::text])))
);
CREATE TRIGGER forget_days AFTER TRUNCATE ON analytics_quarters FOR EACH STATEMENT EXECUTE FUNCTION forget_day_traders();
CREATE TRIGGER mark_deleted AFTER DELETE ON analytics_quarters REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_day_traders();
CREATE TRIGGER mark_inserted AFTER INSERT ON analytics_quarters REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_day_traders();
CREATE TRIGGER mark_updated AFTER UPDATE ON analytics_quarters REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION mark_day_traders();

create table analytics_step_changes (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  quarter timestamp with time zone not null,
  number integer not null,
  odd boolean not null,
  trades integer not null,
  stake numeric not null,
  pnl numeric not null,
  markup numeric not null,
  markup_unknown integer not null,
  had timestamp with time zone,
  last_at timestamp with time zone,
  constraint analytics_step_changes_pkey PRIMARY KEY (partner_id, account_mode, currency, quarter, number, odd)
);

create table analytics_step_chunks (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  chunk integer not null,
  numbers integer[] not null,
  constraint analytics_step_chunks_pkey PRIMARY KEY (partner_id, account_mode, currency, chunk)
);

create table analytics_step_groups (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  until timestamp with time zone,
  listed integer default 0 not null,
  traders integer default 0 not null,
  constraint analytics_step_groups_pkey PRIMARY KEY (partner_id, account_mode, currency)
);

create table analytics_step_places (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  number integer not null,
  place integer not null,
  constraint analytics_step_places_pkey PRIMARY KEY (partner_id, account_mode, currency, number)
);

create table analytics_step_totals (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  chunk integer not null,
  at timestamp with time zone not null,
  trades integer[] not null,
  stake bigint[] not null,
  pnl bigint[] not null,
  markup bigint[] not null,
  last_at timestamp with time zone[] not null,
  constraint analytics_step_totals_pkey PRIMARY KEY (partner_id, account_mode, currency, chunk, at)
);

create table analytics_steps (
  partner_id text collate "C" not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  at timestamp with time zone not null,
  markup_unknown bigint not null,
  constraint analytics_steps_pkey PRIMARY KEY (partner_id, account_mode, currency, at)
);

create table analytics_trader_days (
  partner_id text collate "C" not null,
  day date not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  trader_id text collate "C" not null,
  trades integer not null,
  won integer not null,
  stake numeric not null,
  payout numeric not null,
  pnl numeric not null,
  markup numeric not null,
  markup_unknown integer not null,
  copied integer not null,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  constraint analytics_trader_days_pkey PRIMARY KEY (partner_id, day, account_mode, currency, trader_id)
);
CREATE INDEX analytics_trader_days_of_trader ON analytics_trader_days USING btree (trader_id, day);

create table analytics_until (
  single boolean default true not null,
  until timestamp with time zone not null,
  since timestamp with time zone default now() not null,
  constraint analytics_until_pkey PRIMARY KEY (single),
  constraint analytics_until_single_check CHECK (single)
);

create table api_keys (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  lookup text not null,
  hash bytea not null,
  label text,
  scopes text[] not null,
  created_at timestamp with time zone default now() not null,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  test boolean default false not null,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_lookup_key UNIQUE (lookup),
  constraint api_keys_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint api_keys_hash_check CHECK ((length(hash) = 32)),
  constraint api_keys_label_check CHECK ((length(label) <= 80)),
  constraint api_keys_lookup_check CHECK ((lookup ~ '^[0-9a-f]{16}$'::text))
);
CREATE INDEX api_keys_partner ON api_keys USING btree (partner_id, created_at);
CREATE TRIGGER events_created AFTER INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION key_events();
CREATE TRIGGER events_revoked AFTER UPDATE OF revoked_at ON api_keys FOR EACH ROW WHEN (((new.revoked_at IS NOT NULL) AND (old.revoked_at IS NULL))) EXECUTE FUNCTION key_events();
CREATE TRIGGER key_of_its_side BEFORE INSERT OR UPDATE OF test, partner_id ON api_keys FOR EACH ROW EXECUTE FUNCTION key_of_its_side();

create table archive_months (
  month date not null,
  orders bigint not null,
  dropped bigint default 0 not null,
  dropped_at timestamp with time zone,
  dropped_until timestamp with time zone,
  constraint archive_months_pkey PRIMARY KEY (month)
);

create table archived_names (
  name uuid not null,
  order_id text collate "C" not null,
  created_at timestamp with time zone not null,
  constraint archived_names_pkey PRIMARY KEY (name)
);

create table archived_traders (
  trader_id text collate "C" not null,
  partner_id text collate "C" not null,
  newest timestamp with time zone not null,
  constraint archived_traders_pkey PRIMARY KEY (trader_id)
);
CREATE INDEX archived_traders_partner ON archived_traders USING btree (partner_id, newest);

create table audit_log (
  id text collate "C" not null,
  at timestamp with time zone default now() not null,
  actor text not null,
  action text not null,
  target text,
  details jsonb default '{}'::jsonb not null,
  seq bigint not null,
  hash bytea not null,
  constraint audit_log_pkey PRIMARY KEY (id),
  constraint audit_log_seq UNIQUE (seq)
);
CREATE INDEX audit_log_at ON audit_log USING btree (at DESC);
CREATE INDEX audit_log_target ON audit_log USING btree (target, id DESC) WHERE (target IS NOT NULL);
CREATE TRIGGER chain BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_chain();
CREATE TRIGGER no_change BEFORE DELETE OR UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();

create table broker_accounts (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  account_id text not null,
  account_mode text not null,
  currency text,
  token_key_id text not null,
  token_sealed bytea not null,
  status text default 'CONNECTED'::text not null,
  token_version integer default 1 not null,
  connected_at timestamp with time zone default now() not null,
  audited_at timestamp with time zone,
  compared_at timestamp with time zone,
  rejected_reason text,
  proven_version integer,
  renewal_version integer,
  refresh_key_id text,
  refresh_sealed bytea,
  refresh_digest text,
  token_expires_at timestamp with time zone,
  renew_at timestamp with time zone,
  renewing_until timestamp with time zone,
  prove_at timestamp with time zone,
  refusals integer default 0 not null,
  refused_at timestamp with time zone,
  compared_generation integer default 0 not null,
  was_proven boolean default false not null,
  constraint broker_accounts_pkey PRIMARY KEY (id),
  constraint broker_accounts_trader_id_account_id_key UNIQUE (trader_id, account_id),
  constraint broker_accounts_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint broker_accounts_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id),
  constraint broker_accounts_account_id_check CHECK (((length(account_id) >= 1) AND (length(account_id) <= 64))),
  constraint broker_accounts_account_mode_check CHECK ((account_mode = ANY (ARRAY['REAL'::text, 'DEMO'::text]))),
  constraint broker_accounts_currency_check CHECK ((length(currency) <= 20)),
  constraint broker_accounts_rejected_reason_check CHECK ((rejected_reason = ANY (ARRAY['TOKEN_REFUSED'::text, 'MODE_MISMATCH'::text, 'CURRENCY_MISMATCH'::text, 'TOKEN_EXPIRED'::text, 'ACCOUNT_NOT_FOUND'::text]))),
  constraint broker_accounts_status_check CHECK ((status = ANY (ARRAY['CONNECTED'::text, 'REJECTED'::text]))),
  constraint refresh_sealed_with_key CHECK (((refresh_key_id IS NULL) = (refresh_sealed IS NULL)))
);
CREATE INDEX broker_accounts_account ON broker_accounts USING btree (account_id);
CREATE INDEX broker_accounts_key ON broker_accounts USING btree (token_key_id, id);
CREATE INDEX broker_accounts_partner ON broker_accounts USING btree (partner_id);
CREATE INDEX broker_accounts_refused ON broker_accounts USING btree (partner_id, refused_at) WHERE (refused_at IS NOT NULL);
CREATE INDEX broker_accounts_renewal ON broker_accounts USING btree (renew_at) WHERE (renew_at IS NOT NULL);
CREATE TRIGGER account_of_its_side BEFORE INSERT OR UPDATE OF account_id, partner_id ON broker_accounts FOR EACH ROW EXECUTE FUNCTION account_of_its_side();
CREATE CONSTRAINT TRIGGER events_changed AFTER UPDATE OF status, connected_at ON broker_accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.connected_at <> old.connected_at) OR (new.status <> old.status))) EXECUTE FUNCTION account_events();
CREATE CONSTRAINT TRIGGER events_connected AFTER INSERT ON broker_accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION account_events();
CREATE TRIGGER keep_renewal BEFORE UPDATE OF renew_at ON broker_accounts FOR EACH ROW WHEN (((new.renew_at IS NULL) AND (new.refresh_digest IS NOT NULL) AND (new.renewal_version = new.token_version) AND (new.token_expires_at IS NULL))) EXECUTE FUNCTION keep_renewal();

create table broker_app_refusals (
  dialect text not null,
  app_id text not null,
  broker_code text not null,
  first_at timestamp with time zone default now() not null,
  last_at timestamp with time zone default now() not null,
  constraint broker_app_refusals_pkey PRIMARY KEY (dialect, app_id),
  constraint broker_app_refusals_app_id_check CHECK (((length(app_id) >= 1) AND (length(app_id) <= 64)))
);

create table broker_requests (
  id text collate "C" not null,
  kind text not null,
  key text not null,
  data jsonb not null,
  state text default 'waiting'::text not null,
  response jsonb,
  error jsonb,
  reply_channel text not null,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  responded_at timestamp with time zone,
  trace text,
  partner_id text,
  constraint broker_requests_pkey PRIMARY KEY (id),
  constraint broker_requests_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'answered'::text, 'refused'::text]))),
  constraint broker_requests_trace_check CHECK ((length(trace) = 32))
);
CREATE INDEX broker_requests_expiry ON broker_requests USING btree (expires_at);
CREATE UNIQUE INDEX broker_requests_waiting ON broker_requests USING btree (kind, key) WHERE (state = 'waiting'::text);

create table call_counters (
  scope text collate "C" not null,
  worker text collate "C" not null,
  since timestamp with time zone default clock_timestamp() not null,
  constraint call_counters_pkey PRIMARY KEY (scope, worker)
);

create table call_records (
  scope text collate "C" not null,
  worker text collate "C" not null,
  class text not null,
  window_ms integer not null,
  calls integer not null,
  spent_until timestamp with time zone not null,
  constraint call_records_calls_check CHECK ((calls > 0))
);
CREATE INDEX call_records_age ON call_records USING brin (spent_until);
CREATE INDEX call_records_scope ON call_records USING btree (scope, spent_until);

create table community_bots (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  name text not null,
  description text,
  symbol text,
  config jsonb default '{}'::jsonb not null,
  likes integer default 0 not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  constraint community_bots_pkey PRIMARY KEY (id),
  constraint community_bots_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint community_bots_description_check CHECK ((length(description) <= 1000)),
  constraint community_bots_likes_check CHECK ((likes >= 0)),
  constraint community_bots_name_check CHECK (((length(name) >= 3) AND (length(name) <= 80))),
  constraint community_bots_symbol_check CHECK ((length(symbol) <= 32))
);
CREATE INDEX community_bots_newest ON community_bots USING btree (partner_id, created_at DESC, id DESC);

create table community_likes (
  bot_id text collate "C" not null,
  party_id text collate "C" not null,
  created_at timestamp with time zone default now() not null,
  constraint community_likes_pkey PRIMARY KEY (bot_id, party_id),
  constraint community_likes_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES community_bots(id) ON DELETE CASCADE
);

create table community_messages (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  content text not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  constraint community_messages_pkey PRIMARY KEY (id),
  constraint community_messages_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint community_messages_content_check CHECK (((length(content) >= 1) AND (length(content) <= 1000)))
);
CREATE INDEX community_messages_newest ON community_messages USING btree (partner_id, created_at DESC, id DESC);

create table community_profiles (
  party_id text collate "C" not null,
  partner_id text collate "C" not null,
  display_name text,
  bio text,
  avatar_url text,
  is_public boolean default false not null,
  updated_at timestamp with time zone default now() not null,
  constraint community_profiles_pkey PRIMARY KEY (party_id),
  constraint community_profiles_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint community_profiles_avatar_url_check CHECK ((length(avatar_url) <= 1024)),
  constraint community_profiles_bio_check CHECK ((length(bio) <= 500)),
  constraint community_profiles_display_name_check CHECK ((length(display_name) <= 60))
);
CREATE INDEX community_profiles_public ON community_profiles USING btree (partner_id) WHERE is_public;

create table contract_breaks (
  id bigint generated always as identity not null,
  kind text not null,
  account_id text not null,
  broker_order_id text not null,
  partner_id text collate "C" not null,
  order_id text collate "C",
  details jsonb not null,
  found_at timestamp with time zone default now() not null,
  resolved_at timestamp with time zone,
  resolution text,
  constraint contract_breaks_pkey PRIMARY KEY (id),
  constraint contract_breaks_account_id_broker_order_id_kind_key UNIQUE (account_id, broker_order_id, kind),
  constraint contract_breaks_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint contract_breaks_kind_check CHECK ((kind = ANY (ARRAY['ORPHAN'::text, 'MISMATCH'::text, 'UNSETTLED'::text, 'IMPLAUSIBLE'::text])))
);
CREATE INDEX contract_breaks_open ON contract_breaks USING btree (found_at DESC) WHERE (resolved_at IS NULL);

create table database_lineage (
  generation integer not null,
  identity text not null,
  good_until timestamp with time zone,
  seen_at timestamp with time zone default clock_timestamp() not null,
  table_identity text,
  noted_at timestamp with time zone default clock_timestamp() not null,
  constraint database_lineage_pkey PRIMARY KEY (generation)
);

create table deployments (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  template text not null,
  tenant_slug text not null,
  brand_name text not null,
  primary_color text not null,
  contact_email text,
  status text not null,
  revision integer default 1 not null,
  created_at timestamp with time zone default now() not null,
  updated_at timestamp with time zone default now() not null,
  constraint deployments_pkey PRIMARY KEY (id),
  constraint deployments_tenant_slug_key UNIQUE (tenant_slug),
  constraint deployments_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint deployments_brand_name_check CHECK (((length(brand_name) >= 2) AND (length(brand_name) <= 60))),
  constraint deployments_contact_email_check CHECK ((length(contact_email) <= 254)),
  constraint deployments_primary_color_check CHECK ((primary_color ~ '^#[0-9a-fA-F]{6}$'::text)),
  constraint deployments_status_check CHECK ((status = ANY (ARRAY['QUEUED'::text, 'LIVE'::text, 'FAILED'::text]))),
  constraint deployments_tenant_slug_check CHECK ((tenant_slug ~ '^(test~){0,1}[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$'::text))
);
CREATE INDEX deployments_of_partner ON deployments USING btree (partner_id, created_at, id);
CREATE INDEX deployments_queued ON deployments USING btree (updated_at) WHERE (status = 'QUEUED'::text);
CREATE TRIGGER events AFTER UPDATE OF status ON deployments FOR EACH ROW WHEN (((new.status = ANY (ARRAY['LIVE'::text, 'FAILED'::text])) AND (new.status <> old.status))) EXECUTE FUNCTION deployment_events();
CREATE TRIGGER site_of_its_side BEFORE INSERT OR UPDATE OF tenant_slug, partner_id ON deployments FOR EACH ROW EXECUTE FUNCTION site_of_its_side();

create table earnings_entries (
  account_id text collate "C" not null,
  created_at timestamp with time zone not null,
  version bigint not null,
  kind text not null,
  gross usd not null,
  net usd not null,
  constraint earnings_entries_pkey PRIMARY KEY (account_id, created_at, version)
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON earnings_entries FOR EACH ROW EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER not_truncated BEFORE TRUNCATE ON earnings_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

create table event_epoch (
  single boolean default true not null,
  epoch integer not null,
  day date not null,
  constraint event_epoch_pkey PRIMARY KEY (single),
  constraint event_epoch_epoch_check CHECK ((epoch > 0)),
  constraint event_epoch_single_check CHECK (single)
);

create table event_faults (
  event_id uuid not null,
  partner_id text collate "C" not null,
  "position" bigint not null,
  type text not null,
  reason text not null,
  found_at timestamp with time zone default clock_timestamp() not null,
  constraint event_faults_pkey PRIMARY KEY (event_id)
);

create table event_outbox (
  id bigint generated always as identity not null,
  partner_id text collate "C" not null,
  type text not null,
  subject text collate "C" not null,
  trader text,
  at timestamp with time zone default clock_timestamp() not null,
  facts jsonb,
  constraint event_outbox_pkey PRIMARY KEY (id)
);

create table event_positions (
  partner_id text collate "C" not null,
  "position" bigint not null,
  dropped bigint default 0 not null,
  constraint event_positions_pkey PRIMARY KEY (partner_id)
);

create table events (
  partner_id text collate "C" not null,
  day date not null,
  "position" bigint not null,
  id uuid not null,
  type text not null,
  subject text collate "C" not null,
  trader text,
  at timestamp with time zone not null,
  facts jsonb,
  constraint events_pkey PRIMARY KEY (partner_id, day, "position")
) partition by RANGE (day);
CREATE INDEX events_id ON ONLY events USING btree (id);

create table follows (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  trader_external_id text not null,
  leader_id text collate "C" not null,
  risk_pct numeric not null,
  max_drawdown_pct numeric not null,
  status text not null,
  base_balance numeric not null,
  since timestamp with time zone default now() not null,
  created_at timestamp with time zone default now() not null,
  pnl numeric default 0 not null,
  since_pnl numeric default 0 not null,
  broker_account_id text collate "C",
  account_id text,
  account_mode text,
  currency text,
  mirror_closes boolean default true not null,
  skipped_copies integer default 0 not null,
  skipped_order text,
  skipped_reason text,
  skipped_at timestamp with time zone,
  stopped_at timestamp with time zone,
  active_since timestamp with time zone,
  constraint follows_pkey PRIMARY KEY (id),
  constraint follows_trader_id_leader_id_key UNIQUE (trader_id, leader_id),
  constraint follows_broker_account_id_fkey FOREIGN KEY (broker_account_id) REFERENCES broker_accounts(id),
  constraint follows_leader_id_fkey FOREIGN KEY (leader_id) REFERENCES traders(id),
  constraint follows_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint follows_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id),
  constraint follows_account_mode_check CHECK ((account_mode = ANY (ARRAY['REAL'::text, 'DEMO'::text]))),
  constraint follows_base_balance_check CHECK ((base_balance >= (0)::numeric)),
  constraint follows_check CHECK ((trader_id <> leader_id)),
  constraint follows_max_drawdown_pct_check CHECK (((max_drawdown_pct >= (5)::numeric) AND (max_drawdown_pct <= (90)::numeric))),
  constraint follows_risk_pct_check CHECK (((risk_pct >= (1)::numeric) AND (risk_pct <= (200)::numeric))),
  constraint follows_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'PAUSED_DRAWDOWN'::text, 'PAUSED_MISMATCH'::text, 'STOPPED'::text])))
);
CREATE INDEX follows_leader ON follows USING btree (leader_id, id) WHERE (status = ANY (ARRAY['ACTIVE'::text, 'PAUSED_MISMATCH'::text]));
CREATE INDEX follows_partner ON follows USING btree (partner_id);
CREATE TRIGGER events AFTER UPDATE OF status ON follows FOR EACH ROW WHEN (((new.status ~~ 'PAUSED%'::text) AND (new.status <> old.status))) EXECUTE FUNCTION follow_events();
CREATE TRIGGER follow_of_its_side BEFORE INSERT ON follows FOR EACH ROW EXECUTE FUNCTION follow_of_its_side();

create table idempotency_keys (
  partner_id text collate "C" not null,
  key text collate "C" not null,
  fingerprint bytea not null,
  holder uuid not null,
  leased_until timestamp with time zone not null,
  created_at timestamp with time zone default now() not null,
  answered_at timestamp with time zone,
  token_key_id text,
  answer bytea,
  constraint idempotency_keys_pkey PRIMARY KEY (partner_id, key),
  constraint idempotency_keys_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint idempotency_keys_answer_check CHECK ((octet_length(answer) <= 1100000)),
  constraint idempotency_keys_check CHECK ((((answered_at IS NULL) = (answer IS NULL)) AND ((answer IS NULL) = (token_key_id IS NULL)))),
  constraint idempotency_keys_fingerprint_check CHECK ((octet_length(fingerprint) = 32)),
  constraint idempotency_keys_key_check CHECK (((char_length(key) >= 8) AND (char_length(key) <= 64))),
  constraint idempotency_keys_token_key_id_check CHECK ((char_length(token_key_id) <= 32))
);
CREATE INDEX idempotency_keys_created_at ON idempotency_keys USING btree (created_at);
CREATE INDEX idempotency_keys_token_key_id ON idempotency_keys USING btree (token_key_id) WHERE (token_key_id IS NOT NULL);

create table lease_holders (
  name text collate "C" not null,
  lease_until timestamp with time zone not null,
  clock_offset_ms double precision,
  takes_accounts boolean default false not null,
  constraint lease_holders_pkey PRIMARY KEY (name)
);

create table ledger_accounts (
  id text collate "C" not null,
  kind text generated always as (split_part(id, ':'::text, 1)) stored not null,
  partner_id text collate "C" generated always as (NULLIF(split_part(id, ':'::text, 2), ''::text)) stored,
  balance usd default 0.00 not null,
  version bigint default 0 not null,
  opened_at timestamp with time zone default now() not null,
  test boolean default false not null,
  constraint ledger_accounts_pkey PRIMARY KEY (id),
  constraint ledger_accounts_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint ledger_accounts_covered CHECK (((kind <> ALL (ARRAY['wallet'::text, 'held'::text])) OR ((balance)::numeric >= (0)::numeric))),
  constraint ledger_accounts_name CHECK (((id = ANY (ARRAY['fees'::text, 'world'::text, 'test_fees'::text, 'test_world'::text])) OR (id ~ '^(wallet|earnings|held):[^:]+$'::text)))
);
CREATE TRIGGER account_of_its_money BEFORE INSERT OR UPDATE OF test ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION account_of_its_money();
CREATE TRIGGER changed_by_entries_only BEFORE UPDATE ON ledger_accounts FOR EACH ROW WHEN ((pg_trigger_depth() < 1)) EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER not_deleted BEFORE DELETE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER not_truncated BEFORE TRUNCATE ON ledger_accounts FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER opens_empty BEFORE INSERT ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION ledger_opens_empty();

create table ledger_entries (
  account_id text collate "C" not null,
  version bigint not null,
  transfer_id text collate "C" not null,
  amount usd not null,
  balance usd not null,
  constraint ledger_entries_pkey PRIMARY KEY (account_id, version),
  constraint ledger_entries_transfer_id_account_id_key UNIQUE (transfer_id, account_id),
  constraint ledger_entries_account_id_fkey FOREIGN KEY (account_id) REFERENCES ledger_accounts(id),
  constraint ledger_entries_transfer_id_fkey FOREIGN KEY (transfer_id) REFERENCES ledger_transfers(id),
  constraint ledger_entries_amount_check CHECK (((amount)::numeric <> (0)::numeric))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER apply BEFORE INSERT ON ledger_entries FOR EACH ROW EXECUTE FUNCTION ledger_apply_entry();
CREATE TRIGGER balanced AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_check_entries();
CREATE TRIGGER earnings_entry AFTER INSERT ON ledger_entries FOR EACH ROW WHEN (starts_with(new.account_id, 'earnings:'::text)) EXECUTE FUNCTION earnings_entry();
CREATE TRIGGER fee_entry AFTER INSERT ON ledger_entries FOR EACH ROW WHEN ((new.account_id = ANY (ARRAY['fees'::text, 'test_fees'::text]))) EXECUTE FUNCTION fee_entry();
CREATE TRIGGER not_truncated BEFORE TRUNCATE ON ledger_entries FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

create table ledger_transfers (
  id text collate "C" not null,
  reference text collate "C" not null,
  kind text not null,
  amount usd not null,
  details jsonb default '{}'::jsonb not null,
  created_at timestamp with time zone default now() not null,
  constraint ledger_transfers_pkey PRIMARY KEY (id),
  constraint ledger_transfers_reference_key UNIQUE (reference),
  constraint ledger_transfers_amount_check CHECK (((amount)::numeric > (0)::numeric)),
  constraint ledger_transfers_kind_check CHECK ((kind ~ '^[a-z_]{1,40}$'::text)),
  constraint ledger_transfers_reference_check CHECK (((length(reference) >= 1) AND (length(reference) <= 200)))
);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE ON ledger_transfers FOR EACH ROW EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER has_entries AFTER INSERT ON ledger_transfers REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION ledger_check_transfers();
CREATE TRIGGER not_truncated BEFORE TRUNCATE ON ledger_transfers FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

create table marketplace_bots (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  status text default 'DRAFT'::text not null,
  name text not null,
  description text not null,
  long_description text,
  category text not null,
  risk_level text not null,
  strategy_type text not null,
  supported_assets text[] not null,
  screenshots text[] not null,
  demo_video_url text,
  one_time_price usd,
  monthly_price usd,
  version text not null,
  code text not null,
  rating_sum integer default 0 not null,
  rating_count integer default 0 not null,
  rating numeric generated always as (
CASE
    WHEN (rating_count = 0) THEN (0)::numeric
    ELSE round(((rating_sum)::numeric / (rating_count)::numeric), 2)
END) stored not null,
  downloads integer default 0 not null,
  sales integer default 0 not null,
  subscribers integer default 0 not null,
  gross usd default 0 not null,
  net usd default 0 not null,
  created_at timestamp(3) with time zone default now() not null,
  updated_at timestamp(3) with time zone default now() not null,
  published_at timestamp(3) with time zone,
  test boolean default false not null,
  constraint marketplace_bots_pkey PRIMARY KEY (id),
  constraint marketplace_bots_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint marketplace_bots_category_check CHECK ((category = ANY (ARRAY['trend'::text, 'scalp'::text, 'grid'::text, 'ai'::text, 'arbitrage'::text, 'custom'::text]))),
  constraint marketplace_bots_check CHECK (((status = 'DRAFT'::text) = (published_at IS NULL))),
  constraint marketplace_bots_code_check CHECK ((length(code) >= 1)),
  constraint marketplace_bots_demo_video_url_check CHECK ((length(demo_video_url) <= 2048)),
  constraint marketplace_bots_description_check CHECK (((length(description) >= 1) AND (length(description) <= 500))),
  constraint marketplace_bots_long_description_check CHECK ((length(long_description) <= 5000)),
  constraint marketplace_bots_monthly_price_check CHECK (((monthly_price)::numeric >= (0)::numeric)),
  constraint marketplace_bots_name_check CHECK (((length(name) >= 3) AND (length(name) <= 120))),
  constraint marketplace_bots_one_time_price_check CHECK (((one_time_price)::numeric >= (0)::numeric)),
  constraint marketplace_bots_rating_count_check CHECK ((rating_count >= 0)),
  constraint marketplace_bots_risk_level_check CHECK ((risk_level = ANY (ARRAY['low'::text, 'medium'::text, 'high'::text]))),
  constraint marketplace_bots_sales_check CHECK ((sales >= 0)),
  constraint marketplace_bots_screenshots_check CHECK ((cardinality(screenshots) <= 20)),
  constraint marketplace_bots_status_check CHECK ((status = ANY (ARRAY['DRAFT'::text, 'PUBLISHED'::text, 'RETIRED'::text]))),
  constraint marketplace_bots_strategy_type_check CHECK (((length(strategy_type) >= 1) AND (length(strategy_type) <= 120))),
  constraint marketplace_bots_subscribers_check CHECK ((subscribers >= 0)),
  constraint marketplace_bots_supported_assets_check CHECK ((cardinality(supported_assets) <= 100)),
  constraint marketplace_bots_version_check CHECK (((length(version) >= 1) AND (length(version) <= 32)))
);
CREATE INDEX marketplace_bots_downloaded ON marketplace_bots USING btree (downloads DESC, id DESC) INCLUDE (category, risk_level, test) WHERE (status = 'PUBLISHED'::text);
CREATE INDEX marketplace_bots_newest ON marketplace_bots USING btree (published_at DESC, id DESC) INCLUDE (category, risk_level, test) WHERE (status = 'PUBLISHED'::text);
CREATE INDEX marketplace_bots_partner ON marketplace_bots USING btree (partner_id, created_at DESC, id DESC);
CREATE INDEX marketplace_bots_party ON marketplace_bots USING btree (party_id, created_at DESC, id DESC);
CREATE INDEX marketplace_bots_rated ON marketplace_bots USING btree (rating DESC, rating_count DESC, id DESC) INCLUDE (category, risk_level, test) WHERE (status = 'PUBLISHED'::text);
CREATE INDEX marketplace_bots_test ON marketplace_bots USING btree (published_at DESC, id DESC) WHERE ((status = 'PUBLISHED'::text) AND test);
CREATE TRIGGER bot_of_its_side BEFORE INSERT OR UPDATE OF partner_id, test ON marketplace_bots FOR EACH ROW EXECUTE FUNCTION bot_of_its_side();

create table marketplace_changes (
  version bigint not null,
  sign integer not null,
  bot_id text collate "C" not null,
  published_at timestamp(3) with time zone not null,
  category text not null,
  risk_level text not null,
  words tsvector not null,
  test boolean default false not null,
  constraint marketplace_changes_sign_check CHECK ((sign = ANY (ARRAY[1, '-1'::integer])))
);
CREATE INDEX marketplace_changes_version ON marketplace_changes USING btree (version);

create table marketplace_listing (
  single boolean default true not null,
  version bigint not null,
  constraint marketplace_listing_pkey PRIMARY KEY (single),
  constraint marketplace_listing_single_check CHECK (single)
);

create table marketplace_purchases (
  id text collate "C" not null,
  bot_id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  price usd not null,
  fee usd not null,
  status text default 'COMPLETED'::text not null,
  purchased_at timestamp(3) with time zone default now() not null,
  refunded_at timestamp(3) with time zone,
  refund_reason text,
  constraint marketplace_purchases_pkey PRIMARY KEY (id),
  constraint marketplace_purchases_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES marketplace_bots(id),
  constraint marketplace_purchases_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint marketplace_purchases_check CHECK ((((fee)::numeric >= (0)::numeric) AND ((fee)::numeric <= (price)::numeric))),
  constraint marketplace_purchases_check1 CHECK (((status = 'REFUNDED'::text) = ((refunded_at IS NOT NULL) AND (refund_reason IS NOT NULL)))),
  constraint marketplace_purchases_price_check CHECK (((price)::numeric >= (0)::numeric)),
  constraint marketplace_purchases_refund_reason_check CHECK (((length(refund_reason) >= 3) AND (length(refund_reason) <= 500))),
  constraint marketplace_purchases_status_check CHECK ((status = ANY (ARRAY['COMPLETED'::text, 'REFUNDED'::text])))
);
CREATE INDEX marketplace_purchases_newest ON marketplace_purchases USING btree (purchased_at DESC, id DESC);
CREATE UNIQUE INDEX marketplace_purchases_once ON marketplace_purchases USING btree (bot_id, party_id) WHERE (status = 'COMPLETED'::text);
CREATE INDEX marketplace_purchases_partner ON marketplace_purchases USING btree (partner_id, purchased_at DESC, id DESC);
CREATE INDEX marketplace_purchases_party ON marketplace_purchases USING btree (party_id, purchased_at DESC, id DESC);
CREATE TRIGGER events_bought AFTER INSERT ON marketplace_purchases FOR EACH ROW EXECUTE FUNCTION purchase_events();
CREATE TRIGGER events_refunded AFTER UPDATE OF status ON marketplace_purchases FOR EACH ROW WHEN (((new.status = 'REFUNDED'::text) AND (old.status <> 'REFUNDED'::text))) EXECUTE FUNCTION purchase_events();
CREATE TRIGGER of_the_bots_side BEFORE INSERT OR UPDATE OF bot_id, partner_id ON marketplace_purchases FOR EACH ROW EXECUTE FUNCTION of_the_bots_side();

create table marketplace_reviews (
  id text collate "C" not null,
  bot_id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  rating integer not null,
  comment text,
  created_at timestamp(3) with time zone default now() not null,
  constraint marketplace_reviews_pkey PRIMARY KEY (id),
  constraint marketplace_reviews_bot_id_party_id_key UNIQUE (bot_id, party_id),
  constraint marketplace_reviews_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES marketplace_bots(id),
  constraint marketplace_reviews_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint marketplace_reviews_comment_check CHECK ((length(comment) <= 2000)),
  constraint marketplace_reviews_rating_check CHECK (((rating >= 1) AND (rating <= 5)))
);
CREATE INDEX marketplace_reviews_bot ON marketplace_reviews USING btree (bot_id, created_at DESC, id DESC);
CREATE TRIGGER of_the_bots_side BEFORE INSERT OR UPDATE OF bot_id, partner_id ON marketplace_reviews FOR EACH ROW EXECUTE FUNCTION of_the_bots_side();

create table marketplace_subscriptions (
  id text collate "C" not null,
  bot_id text collate "C" not null,
  partner_id text collate "C" not null,
  party_id text collate "C" not null,
  price usd not null,
  status text default 'ACTIVE'::text not null,
  periods integer default 1 not null,
  current_period_end timestamp(3) with time zone not null,
  cancel_at_period_end boolean default false not null,
  created_at timestamp(3) with time zone default now() not null,
  canceled_at timestamp(3) with time zone,
  billing_anchor timestamp(3) with time zone,
  refunded_at timestamp(3) with time zone,
  refund_reason text,
  constraint marketplace_subscriptions_pkey PRIMARY KEY (id),
  constraint marketplace_subscriptions_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES marketplace_bots(id),
  constraint marketplace_subscriptions_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint marketplace_subscriptions_check CHECK (((status = 'CANCELED'::text) = (canceled_at IS NOT NULL))),
  constraint marketplace_subscriptions_periods_check CHECK ((periods >= 1)),
  constraint marketplace_subscriptions_price_check CHECK (((price)::numeric >= (0)::numeric)),
  constraint marketplace_subscriptions_refund_reason_check CHECK (((length(refund_reason) >= 3) AND (length(refund_reason) <= 500))),
  constraint marketplace_subscriptions_status_check CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'PAST_DUE'::text, 'CANCELED'::text])))
);
CREATE INDEX marketplace_subscriptions_bot ON marketplace_subscriptions USING btree (bot_id) WHERE (status <> 'CANCELED'::text);
CREATE INDEX marketplace_subscriptions_due ON marketplace_subscriptions USING btree (current_period_end, id) WHERE (status <> 'CANCELED'::text);
CREATE UNIQUE INDEX marketplace_subscriptions_once ON marketplace_subscriptions USING btree (bot_id, party_id) WHERE (status <> 'CANCELED'::text);
CREATE INDEX marketplace_subscriptions_partner ON marketplace_subscriptions USING btree (partner_id) WHERE (status <> 'CANCELED'::text);
CREATE INDEX marketplace_subscriptions_party ON marketplace_subscriptions USING btree (party_id, created_at DESC, id DESC);
CREATE TRIGGER events AFTER UPDATE OF status ON marketplace_subscriptions FOR EACH ROW WHEN (((new.status = 'PAST_DUE'::text) AND (old.status <> 'PAST_DUE'::text))) EXECUTE FUNCTION subscription_events();
CREATE TRIGGER of_the_bots_side BEFORE INSERT OR UPDATE OF bot_id, partner_id ON marketplace_subscriptions FOR EACH ROW EXECUTE FUNCTION of_the_bots_side();

create table marketplace_words (
  bot_id text collate "C" not null,
  category text not null,
  risk_level text not null,
  words tsvector not null,
  test boolean default false not null,
  constraint marketplace_words_pkey PRIMARY KEY (bot_id),
  constraint marketplace_words_bot_id_fkey FOREIGN KEY (bot_id) REFERENCES marketplace_bots(id)
);
CREATE INDEX marketplace_words_words ON marketplace_words USING gin (words) WITH (fastupdate=off);

create table migrations (
  id integer default nextval('migrations_id_seq'::regclass) not null,
  name character varying(255),
  batch integer,
  migration_time timestamp with time zone,
  constraint migrations_pkey PRIMARY KEY (id)
);

create table migrations_lock (
  index integer default nextval('migrations_lock_index_seq'::regclass) not null,
  is_locked integer,
  constraint migrations_lock_pkey PRIMARY KEY (index)
);

create table orders (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  trader_external_id text not null,
  broker_account_id text collate "C" not null,
  account_id text not null,
  account_mode text not null,
  currency text,
  app_id text not null,
  dialect text not null,
  kind text not null,
  client_order_id text,
  request_hash bytea not null,
  asset text not null,
  contract_type text,
  direction text,
  multiplier numeric,
  stake numeric not null,
  duration integer,
  duration_unit text,
  barrier text,
  stop_loss numeric,
  take_profit numeric,
  phase text not null,
  status text generated always as (
CASE phase
    WHEN 'open'::text THEN 'OPEN'::text
    WHEN 'closed'::text THEN 'CLOSED'::text
    WHEN 'failed'::text THEN 'FAILED'::text
    ELSE 'PENDING'::text
END) stored not null,
  attempt integer default 1 not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  queued_at timestamp with time zone default clock_timestamp() not null,
  expires_at timestamp with time zone not null,
  sent_at timestamp with time zone,
  permit_until timestamp with time zone,
  sender text,
  resolve_at timestamp with time zone,
  checks integer default 0 not null,
  broker_order_id text,
  transaction_id text,
  buy_price numeric,
  payout numeric,
  commission numeric,
  opened_at timestamp with time zone,
  expiry_at timestamp with time zone,
  current_value numeric,
  unrealized_pnl numeric,
  marked_at timestamp with time zone,
  pnl numeric,
  entry_price numeric,
  exit_price numeric,
  closed_at timestamp with time zone,
  error_code text,
  error_message text,
  error_extras jsonb,
  retryable boolean default false not null,
  evidence jsonb,
  lease_holder text collate "C",
  lease_until timestamp with time zone,
  reply_channel text,
  copied_from text collate "C",
  follow_id text collate "C",
  has_followers boolean default false not null,
  trace text,
  reset_attempt integer,
  answered_at timestamp with time zone,
  reset_at timestamp with time zone,
  absence_checks integer default 0 not null,
  claim_no integer,
  stake_in_account numeric,
  exchange_rate numeric,
  not_before timestamp with time zone,
  raised_to_minimum boolean,
  closed_early boolean default false not null,
  close_at timestamp with time zone,
  close_tries integer default 0 not null,
  limits_version integer default 0 not null,
  new_stop_loss numeric,
  new_take_profit numeric,
  limits_at timestamp with time zone,
  limits_tries integer default 0 not null,
  markup numeric,
  constraint orders_pkey PRIMARY KEY (id),
  constraint orders_client_order_id UNIQUE (partner_id, client_order_id),
  constraint orders_broker_account_id_fkey FOREIGN KEY (broker_account_id) REFERENCES broker_accounts(id),
  constraint orders_follow FOREIGN KEY (follow_id) REFERENCES follows(id),
  constraint orders_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint orders_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id),
  constraint orders_bought CHECK (((phase <> ALL (ARRAY['open'::text, 'closed'::text])) OR ((broker_order_id IS NOT NULL) AND (buy_price IS NOT NULL) AND (opened_at IS NOT NULL)))),
  constraint orders_client_order_id_check CHECK (((length(client_order_id) >= 8) AND (length(client_order_id) <= 64))),
  constraint orders_direction_check CHECK ((direction = ANY (ARRAY['up'::text, 'down'::text]))),
  constraint orders_duration_check CHECK ((duration >= 1)),
  constraint orders_duration_unit_check CHECK ((duration_unit = ANY (ARRAY['t'::text, 's'::text, 'm'::text, 'h'::text, 'd'::text]))),
  constraint orders_exchange_rate_check CHECK ((exchange_rate > (0)::numeric)),
  constraint orders_kind_check CHECK ((kind = ANY (ARRAY['BINARY'::text, 'MULTIPLIER'::text]))),
  constraint orders_markup_check CHECK ((markup >= (0)::numeric)),
  constraint orders_named CHECK (((client_order_id IS NOT NULL) OR (copied_from IS NOT NULL))),
  constraint orders_permit CHECK (((phase <> 'sending'::text) OR ((sent_at IS NOT NULL) AND (permit_until <= expires_at) AND (resolve_at > permit_until)))),
  constraint orders_phase_check CHECK ((phase = ANY (ARRAY['unproven'::text, 'queued'::text, 'sending'::text, 'open'::text, 'closed'::text, 'failed'::text, 'review'::text]))),
  constraint orders_refused CHECK (((phase <> 'failed'::text) OR (error_code IS NOT NULL))),
  constraint orders_settled CHECK (((phase <> 'closed'::text) OR ((pnl IS NOT NULL) AND (closed_at IS NOT NULL)))),
  constraint orders_stake_check CHECK ((stake > (0)::numeric)),
  constraint orders_stake_in_account_check CHECK ((stake_in_account > (0)::numeric)),
  constraint orders_trace_check CHECK ((length(trace) = 32))
);
CREATE INDEX orders_closed ON orders USING btree (partner_id, closed_at) INCLUDE (trader_id, pnl, stake, stake_in_account, copied_from, account_mode, currency) WHERE (phase = 'closed'::text);
CREATE UNIQUE INDEX orders_contract ON orders USING btree (account_id, broker_order_id) WHERE (broker_order_id IS NOT NULL);
CREATE UNIQUE INDEX orders_copy ON orders USING btree (copied_from, follow_id) WHERE (copied_from IS NOT NULL);
CREATE INDEX orders_follow_copies ON orders USING btree (follow_id, queued_at) WHERE (follow_id IS NOT NULL);
CREATE INDEX orders_leased ON orders USING btree (lease_holder) WHERE ((phase = 'open'::text) AND (lease_holder IS NOT NULL));
CREATE INDEX orders_limits_to_set ON orders USING btree (limits_at) WHERE ((phase = 'open'::text) AND (limits_at IS NOT NULL));
CREATE UNIQUE INDEX orders_one_in_doubt ON orders USING btree (account_id) WHERE (phase = 'sending'::text);
CREATE INDEX orders_open_trader ON orders USING btree (partner_id, trader_external_id) WHERE (phase = 'open'::text);
CREATE INDEX orders_opened ON orders USING btree (partner_id, opened_at) WHERE (opened_at IS NOT NULL);
CREATE INDEX orders_page ON orders USING btree (partner_id, created_at DESC, id DESC);
CREATE INDEX orders_page_status ON orders USING btree (partner_id, status, created_at DESC, id DESC);
CREATE INDEX orders_page_trader ON orders USING btree (partner_id, trader_external_id, created_at DESC, id DESC);
CREATE INDEX orders_partner_contract ON orders USING btree (partner_id, broker_order_id) WHERE (broker_order_id IS NOT NULL);
CREATE INDEX orders_queue ON orders USING btree (account_id, queued_at, id) WHERE (phase = 'queued'::text);
CREATE INDEX orders_recent_account ON orders USING btree (broker_account_id, queued_at DESC);
CREATE INDEX orders_released ON orders USING btree (lease_until NULLS FIRST) WHERE ((phase = 'open'::text) AND (lease_holder IS NULL));
CREATE INDEX orders_review ON orders USING btree (created_at) WHERE (phase = 'review'::text);
CREATE INDEX orders_to_close ON orders USING btree (close_at) WHERE ((phase = 'open'::text) AND (close_at IS NOT NULL));
CREATE INDEX orders_unfinished_copies ON orders USING btree (follow_id) WHERE ((follow_id IS NOT NULL) AND (phase = ANY (ARRAY['unproven'::text, 'queued'::text, 'sending'::text, 'open'::text, 'review'::text])));
CREATE INDEX orders_unproven ON orders USING btree (partner_id, broker_account_id) WHERE (phase = 'unproven'::text);
CREATE TRIGGER analytics_changed AFTER UPDATE OF phase, opened_at, closed_at, pnl, buy_price, stake_in_account, markup, commission, currency, account_mode ON orders FOR EACH ROW WHEN (((LEAST(new.opened_at, old.opened_at) < (now() - '00:05:00'::interval)) AND ((new.phase = ANY (ARRAY['open'::text, 'closed'::text])) OR (old.phase = ANY (ARRAY['open'::text, 'closed'::text]))) AND ((new.phase <> old.phase) OR (new.markup IS DISTINCT FROM old.markup) OR (new.commission IS DISTINCT FROM old.commission) OR (new.pnl IS DISTINCT FROM old.pnl) OR (new.closed_at IS DISTINCT FROM old.closed_at) OR (new.opened_at <> old.opened_at) OR (new.buy_price <> old.buy_price) OR (new.stake_in_account IS DISTINCT FROM old.stake_in_account) OR (new.currency IS DISTINCT FROM old.currency) OR (new.account_mode <> old.account_mode)))) EXECUTE FUNCTION mark_late_analytics();
CREATE TRIGGER analytics_inserted AFTER INSERT ON orders FOR EACH ROW WHEN (((new.phase = ANY (ARRAY['open'::text, 'closed'::text])) AND (new.opened_at < (now() - '00:05:00'::interval)))) EXECUTE FUNCTION mark_late_analytics();
CREATE TRIGGER events AFTER UPDATE OF phase, error_code ON orders FOR EACH ROW WHEN (((new.phase = ANY (ARRAY['open'::text, 'closed'::text, 'failed'::text, 'review'::text])) AND ((old.phase <> new.phase) OR ((new.phase = 'open'::text) AND (new.error_code = 'REVIEW_REQUIRED'::text) AND (old.error_code IS NULL))))) EXECUTE FUNCTION order_events();
CREATE TRIGGER order_of_its_side BEFORE INSERT ON orders FOR EACH ROW WHEN (((new.account_id ~~ 'TST%'::text) <> (new.dialect = 'test'::text))) EXECUTE FUNCTION order_of_its_side();
CREATE TRIGGER orders_late AFTER INSERT OR UPDATE OF phase, closed_at, pnl, stake, stake_in_account ON orders FOR EACH ROW WHEN (((new.phase = 'closed'::text) AND (new.closed_at < (now() - '00:05:00'::interval)) AND (new.closed_at > (now() - '31 days'::interval)))) EXECUTE FUNCTION mark_late_order();
CREATE TRIGGER refuse_archived_contract AFTER UPDATE OF broker_order_id ON orders FOR EACH ROW WHEN (((new.broker_order_id IS DISTINCT FROM old.broker_order_id) AND (new.opened_at < (now() - '1 day'::interval)))) EXECUTE FUNCTION refuse_archived_contract();
CREATE TRIGGER refuse_archived_names AFTER INSERT ON orders REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION refuse_archived_names();

create table orders_archive (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  trader_external_id text not null,
  broker_account_id text collate "C" not null,
  account_id text not null,
  account_mode text not null,
  currency text,
  app_id text not null,
  dialect text not null,
  kind text not null,
  client_order_id text,
  request_hash bytea not null,
  asset text not null,
  contract_type text,
  direction text,
  multiplier numeric,
  stake numeric not null,
  duration integer,
  duration_unit text,
  barrier text,
  stop_loss numeric,
  take_profit numeric,
  phase text not null,
  status text generated always as (
CASE phase
    WHEN 'open'::text THEN 'OPEN'::text
    WHEN 'closed'::text THEN 'CLOSED'::text
    WHEN 'failed'::text THEN 'FAILED'::text
    ELSE 'PENDING'::text
END) stored not null,
  attempt integer not null,
  created_at timestamp with time zone not null,
  queued_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  sent_at timestamp with time zone,
  permit_until timestamp with time zone,
  sender text,
  resolve_at timestamp with time zone,
  checks integer not null,
  broker_order_id text,
  transaction_id text,
  buy_price numeric,
  payout numeric,
  commission numeric,
  opened_at timestamp with time zone,
  expiry_at timestamp with time zone,
  current_value numeric,
  unrealized_pnl numeric,
  marked_at timestamp with time zone,
  pnl numeric,
  entry_price numeric,
  exit_price numeric,
  closed_at timestamp with time zone,
  error_code text,
  error_message text,
  error_extras jsonb,
  retryable boolean not null,
  evidence jsonb,
  lease_holder text collate "C",
  lease_until timestamp with time zone,
  reply_channel text,
  copied_from text collate "C",
  follow_id text collate "C",
  has_followers boolean not null,
  trace text,
  reset_attempt integer,
  answered_at timestamp with time zone,
  reset_at timestamp with time zone,
  absence_checks integer not null,
  claim_no integer,
  stake_in_account numeric,
  exchange_rate numeric,
  not_before timestamp with time zone,
  raised_to_minimum boolean,
  closed_early boolean not null,
  close_at timestamp with time zone,
  close_tries integer not null,
  limits_version integer not null,
  new_stop_loss numeric,
  new_take_profit numeric,
  limits_at timestamp with time zone,
  limits_tries integer not null,
  markup numeric,
  constraint orders_archive_pkey PRIMARY KEY (id, created_at),
  constraint orders_archive_final CHECK ((phase = ANY (ARRAY['closed'::text, 'failed'::text])))
) partition by RANGE (created_at);
CREATE INDEX orders_archive_closed ON ONLY orders_archive USING btree (partner_id, closed_at) WHERE (phase = 'closed'::text);
CREATE INDEX orders_archive_contract ON ONLY orders_archive USING btree (broker_order_id) WHERE (broker_order_id IS NOT NULL);
CREATE INDEX orders_archive_failed ON ONLY orders_archive USING btree (partner_id, created_at) WHERE (phase = 'failed'::text);
CREATE INDEX orders_archive_follow ON ONLY orders_archive USING btree (follow_id) WHERE (follow_id IS NOT NULL);
CREATE INDEX orders_archive_opened ON ONLY orders_archive USING btree (partner_id, opened_at) WHERE (opened_at IS NOT NULL);
CREATE INDEX orders_archive_page ON ONLY orders_archive USING btree (partner_id, created_at);
CREATE INDEX orders_archive_page_closed ON ONLY orders_archive USING btree (partner_id, created_at) WHERE (phase = 'closed'::text);
CREATE INDEX orders_archive_trader ON ONLY orders_archive USING btree (partner_id, trader_external_id, created_at);
CREATE TRIGGER note_archived_traders AFTER INSERT ON orders_archive REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION note_archived_traders();

create table partners (
  id text collate "C" not null,
  name text not null,
  plan text not null,
  plan_active boolean default true not null,
  suspended_at timestamp with time zone,
  suspended_reason text,
  broker_app_id text not null,
  broker_dialect text not null,
  created_at timestamp with time zone default now() not null,
  period_start timestamp(3) with time zone default now() not null,
  period_end timestamp(3) with time zone default (now() + '30 days'::interval) not null,
  billing_anchor timestamp(3) with time zone default (now() + '30 days'::interval) not null,
  next_plan text,
  active_since timestamp(3) with time zone,
  key_limit integer,
  trader_limit integer,
  test_of text collate "C",
  constraint partners_pkey PRIMARY KEY (id),
  constraint partners_test_of_key UNIQUE (test_of),
  constraint partners_test_of_fkey FOREIGN KEY (test_of) REFERENCES partners(id),
  constraint partners_broker_app_id_check CHECK (((length(broker_app_id) >= 1) AND (length(broker_app_id) <= 64))),
  constraint partners_broker_dialect_check CHECK (((broker_dialect = ANY (ARRAY['v3'::text, 'next'::text, 'test'::text])) AND ((broker_dialect = 'test'::text) = (test_of IS NOT NULL)))),
  constraint partners_key_limit_check CHECK ((key_limit >= 1)),
  constraint partners_name_check CHECK (((length(name) >= 1) AND (length(name) <= 120))),
  constraint partners_next_plan_check CHECK ((next_plan = ANY (ARRAY['LAUNCH'::text, 'PRO'::text, 'SCALE'::text]))),
  constraint partners_period CHECK ((period_end >= period_start)),
  constraint partners_plan_check CHECK ((plan = ANY (ARRAY['LAUNCH'::text, 'PRO'::text, 'SCALE'::text]))),
  constraint partners_trader_limit_check CHECK ((trader_limit >= 1))
);
CREATE INDEX partners_due ON partners USING btree (period_end, id) WHERE plan_active;
CREATE INDEX partners_unpaid ON partners USING btree (id) WHERE (NOT plan_active);
CREATE TRIGGER events AFTER UPDATE OF plan_active ON partners FOR EACH ROW WHEN ((new.plan_active <> old.plan_active)) EXECUTE FUNCTION plan_events();
CREATE TRIGGER keep_test_side BEFORE INSERT OR UPDATE OF test_of ON partners FOR EACH ROW EXECUTE FUNCTION keep_test_side();
CREATE TRIGGER mirror_test_side AFTER UPDATE OF name, plan, next_plan, plan_active, suspended_at, suspended_reason, key_limit, trader_limit, period_start, period_end, active_since ON partners FOR EACH ROW WHEN ((new.test_of IS NULL)) EXECUTE FUNCTION mirror_test_side();

create table password_resets (
  trader_id text collate "C" not null,
  hash bytea not null,
  expires_at timestamp with time zone not null,
  constraint password_resets_pkey PRIMARY KEY (trader_id),
  constraint password_resets_hash_key UNIQUE (hash),
  constraint password_resets_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id),
  constraint password_resets_hash_check CHECK ((octet_length(hash) = 32))
);
CREATE INDEX password_resets_expires_at ON password_resets USING btree (expires_at);

create table payouts (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  amount usd not null,
  destination_address text not null,
  status text default 'REQUESTED'::text not null,
  requested_at timestamp with time zone default now() not null,
  decided_at timestamp with time zone,
  paid_at timestamp with time zone,
  reference text,
  reason text,
  party_id text collate "C" not null,
  constraint payouts_pkey PRIMARY KEY (id),
  constraint payouts_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint payouts_amount_check CHECK (((amount)::numeric > (0)::numeric)),
  constraint payouts_check CHECK (((status = 'REQUESTED'::text) = (decided_at IS NULL))),
  constraint payouts_check1 CHECK (((status = 'PAID'::text) = ((paid_at IS NOT NULL) AND (reference IS NOT NULL)))),
  constraint payouts_check2 CHECK (((status = 'REJECTED'::text) = (reason IS NOT NULL))),
  constraint payouts_destination_address_check CHECK ((length(destination_address) = 34)),
  constraint payouts_reason_check CHECK (((length(reason) >= 3) AND (length(reason) <= 500))),
  constraint payouts_reference_check CHECK (((length(reference) >= 1) AND (length(reference) <= 200))),
  constraint payouts_status_check CHECK ((status = ANY (ARRAY['REQUESTED'::text, 'APPROVED'::text, 'PAID'::text, 'REJECTED'::text])))
);
CREATE INDEX payouts_partner ON payouts USING btree (partner_id, requested_at DESC, id DESC);
CREATE INDEX payouts_party ON payouts USING btree (party_id, requested_at DESC, id DESC);
CREATE INDEX payouts_status ON payouts USING btree (status, requested_at, id);
CREATE TRIGGER events AFTER UPDATE OF status ON payouts FOR EACH ROW WHEN (((new.status = ANY (ARRAY['APPROVED'::text, 'PAID'::text, 'REJECTED'::text])) AND (new.status <> old.status))) EXECUTE FUNCTION payout_events();

create table processes (
  name text collate "C" not null,
  kind text not null,
  version text not null,
  address text,
  started_at timestamp with time zone default clock_timestamp() not null,
  seen_at timestamp with time zone default clock_timestamp() not null,
  report jsonb,
  constraint processes_pkey PRIMARY KEY (name),
  constraint processes_kind_check CHECK ((kind = ANY (ARRAY['api'::text, 'worker'::text])))
);

create table reconciled_currencies (
  partner_id text collate "C" not null,
  dialect text not null,
  app_id text not null,
  day date not null,
  currency text not null,
  our_contracts integer not null,
  our_markup numeric not null,
  our_unknown integer not null,
  their_contracts integer,
  their_markup numeric,
  missing_here text[] not null,
  missing_there text[] not null,
  constraint reconciled_currencies_pkey PRIMARY KEY (partner_id, dialect, app_id, day, currency),
  constraint reconciled_currencies_partner_id_dialect_app_id_day_fkey FOREIGN KEY (partner_id, dialect, app_id, day) REFERENCES reconciled_days(partner_id, dialect, app_id, day) ON DELETE CASCADE
);

create table reconciled_days (
  partner_id text collate "C" not null,
  dialect text not null,
  app_id text not null,
  day date not null,
  compared_at timestamp with time zone default now() not null,
  complete boolean not null,
  again_at timestamp with time zone,
  constraint reconciled_days_pkey PRIMARY KEY (partner_id, dialect, app_id, day),
  constraint reconciled_days_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id)
);

create table report_tokens (
  partner_id text collate "C" not null,
  dialect text not null,
  app_id text not null,
  token_key_id text not null,
  token_sealed bytea not null,
  version integer default 1 not null,
  status text default 'CONNECTED'::text not null,
  rejected_reason text,
  stored_at timestamp with time zone default now() not null,
  constraint report_tokens_pkey PRIMARY KEY (partner_id),
  constraint report_tokens_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint report_tokens_rejected_reason_check CHECK ((rejected_reason = ANY (ARRAY['TOKEN_REFUSED'::text, 'SCOPE_MISSING'::text]))),
  constraint report_tokens_status_check CHECK ((status = ANY (ARRAY['CONNECTED'::text, 'REJECTED'::text])))
);

create table request_groups (
  partner_id text collate "C" not null,
  day date not null,
  n bigint default nextval('request_groups_n'::regclass) not null,
  from_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  entries smallint not null,
  worst smallint not null,
  ids integer[] not null,
  shapes text not null,
  data text not null,
  constraint request_groups_pkey PRIMARY KEY (day, n)
) partition by RANGE (day);
CREATE INDEX request_groups_partner ON ONLY request_groups USING btree (partner_id, last_at, n) INCLUDE (day, from_at, entries, ids);

create table requests (
  partner_id text collate "C" not null,
  day date not null,
  n bigint default nextval('requests_n'::regclass) not null,
  at timestamp with time zone not null,
  request_id text collate "C" not null,
  key_id text collate "C",
  operation text collate "C" not null,
  method text collate "C" not null,
  path text not null,
  status smallint not null,
  error text collate "C",
  trader text,
  ms real not null,
  constraint requests_pkey PRIMARY KEY (day, n)
) partition by RANGE (day);
CREATE INDEX requests_id ON ONLY requests USING hash (request_id);
CREATE INDEX requests_partner ON ONLY requests USING btree (partner_id, at, n);
CREATE TRIGGER pack_requests AFTER INSERT ON requests REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION pack_requests();

create table secrets (
  name text not null,
  key_id text not null,
  sealed bytea not null,
  constraint secrets_pkey PRIMARY KEY (name)
);

create table sessions (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  trader_id text collate "C",
  hash bytea not null,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone not null,
  revoked_at timestamp with time zone,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_hash_key UNIQUE (hash),
  constraint sessions_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint sessions_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id),
  constraint sessions_hash_check CHECK ((length(hash) = 32))
);
CREATE INDEX sessions_expiry ON sessions USING btree (expires_at);
CREATE INDEX sessions_partner ON sessions USING btree (partner_id, created_at) WHERE (trader_id IS NULL);
CREATE INDEX sessions_trader ON sessions USING btree (trader_id) WHERE (trader_id IS NOT NULL);

create table site_files (
  deployment_id text collate "C" not null,
  path text not null,
  content_type text not null,
  body bytea not null,
  etag text not null,
  constraint site_files_pkey PRIMARY KEY (deployment_id, path),
  constraint site_files_deployment_id_fkey FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint site_files_body_check CHECK ((octet_length(body) <= 262144)),
  constraint site_files_path_check CHECK (((length(path) >= 1) AND (length(path) <= 100)))
);

create table stream_tickets (
  hash bytea not null,
  partner_id text collate "C" not null,
  key_id text collate "C" not null,
  trader_external_id text not null,
  channels text[] not null,
  expires_at timestamp with time zone not null,
  assets text[],
  constraint stream_tickets_pkey PRIMARY KEY (hash),
  constraint stream_tickets_key_id_fkey FOREIGN KEY (key_id) REFERENCES api_keys(id),
  constraint stream_tickets_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id)
);
CREATE INDEX stream_tickets_expiry ON stream_tickets USING btree (expires_at);

create table test_broker (
  single boolean default true not null,
  worker text not null,
  machine text not null,
  url text not null,
  since timestamp with time zone default now() not null,
  constraint test_broker_pkey PRIMARY KEY (single),
  constraint test_broker_single_check CHECK (single)
);

create table test_broker_entries (
  seq bigint generated always as identity not null,
  at timestamp with time zone default now() not null,
  kind text not null,
  account text collate "C",
  contract bigint,
  cents bigint not null,
  entry jsonb not null,
  constraint test_broker_entries_pkey PRIMARY KEY (seq),
  constraint test_broker_entries_kind_check CHECK ((kind = ANY (ARRAY['account'::text, 'deposit'::text, 'bought'::text, 'limits'::text, 'sold'::text])))
);
CREATE INDEX test_broker_entries_account ON test_broker_entries USING btree (account) WHERE (kind = 'account'::text);
CREATE INDEX test_broker_entries_contract ON test_broker_entries USING btree (contract) WHERE (contract IS NOT NULL);
CREATE INDEX test_broker_entries_sold ON test_broker_entries USING btree (seq) WHERE (kind = 'sold'::text);

create table tick_leases (
  dialect text not null,
  worker text collate "C" not null,
  term integer not null,
  lease_until timestamp with time zone not null,
  constraint tick_leases_pkey PRIMARY KEY (dialect)
);

create table tick_wants (
  process text collate "C" not null,
  dialect text not null,
  app_ids text[] not null,
  assets text[] not null,
  wanted_since timestamp with time zone default clock_timestamp() not null,
  wanted_until timestamp with time zone not null,
  constraint tick_wants_pkey PRIMARY KEY (process, dialect)
);

create table trade_records (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  broker_contract_id text collate "C" not null,
  client_broker_loginid text collate "C" not null,
  contract_type text not null,
  stake_amount numeric not null,
  profit_loss numeric not null,
  payout_amount numeric,
  currency text,
  trader_external_id text collate "C",
  symbol text,
  metadata jsonb,
  trade_timestamp text not null,
  traded_at timestamp with time zone not null,
  collected_at timestamp with time zone default now() not null,
  constraint trade_records_pkey PRIMARY KEY (id),
  constraint trade_records_partner_id_broker_contract_id_key UNIQUE (partner_id, broker_contract_id),
  constraint trade_records_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint trade_records_broker_contract_id_check CHECK (((length(broker_contract_id) >= 1) AND (length(broker_contract_id) <= 64))),
  constraint trade_records_client_broker_loginid_check CHECK (((length(client_broker_loginid) >= 1) AND (length(client_broker_loginid) <= 32))),
  constraint trade_records_contract_type_check CHECK (((length(contract_type) >= 1) AND (length(contract_type) <= 32))),
  constraint trade_records_currency_check CHECK ((length(currency) <= 8)),
  constraint trade_records_stake_amount_check CHECK ((stake_amount > (0)::numeric)),
  constraint trade_records_symbol_check CHECK (((length(symbol) >= 1) AND (length(symbol) <= 32))),
  constraint trade_records_trade_timestamp_check CHECK (((length(trade_timestamp) >= 10) AND (length(trade_timestamp) <= 40))),
  constraint trade_records_trader_external_id_check CHECK (((length(trader_external_id) >= 1) AND (length(trader_external_id) <= 128)))
);
CREATE INDEX trade_records_history ON trade_records USING btree (partner_id, traded_at DESC, id DESC);
CREATE INDEX trade_records_trader ON trade_records USING btree (partner_id, trader_external_id, traded_at) INCLUDE (profit_loss, client_broker_loginid, broker_contract_id) WHERE (trader_external_id IS NOT NULL);

create table trader_days (
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  day date not null,
  trades integer not null,
  wins integer not null,
  pnl numeric not null,
  own_trades integer not null,
  own_wins integer not null,
  own_pnl numeric not null,
  own_stake numeric not null,
  own_peak numeric not null,
  own_low numeric not null,
  own_fall numeric not null,
  account_mode text collate "C" not null,
  currency text collate "C" not null,
  constraint trader_days_pkey PRIMARY KEY (partner_id, trader_id, day, account_mode, currency),
  constraint trader_days_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint trader_days_trader_id_fkey FOREIGN KEY (trader_id) REFERENCES traders(id)
);

create table trader_days_late (
  partner_id text collate "C" not null,
  trader_id text collate "C" not null,
  day date not null
);

create table trader_days_until (
  single boolean default true not null,
  until timestamp with time zone not null,
  constraint trader_days_until_pkey PRIMARY KEY (single),
  constraint trader_days_until_single_check CHECK (single)
);

create table traders (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  external_id text not null,
  email text,
  name text,
  active_account_id text collate "C",
  connected_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  password_hash text,
  disabled_at timestamp with time zone,
  number integer generated always as identity not null,
  constraint traders_pkey PRIMARY KEY (id),
  constraint traders_partner_id_external_id_key UNIQUE (partner_id, external_id),
  constraint traders_active_account FOREIGN KEY (active_account_id) REFERENCES broker_accounts(id) DEFERRABLE INITIALLY DEFERRED,
  constraint traders_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint traders_connected_has_account CHECK (((connected_at IS NULL) OR (active_account_id IS NOT NULL))),
  constraint traders_email_check CHECK ((length(email) <= 254)),
  constraint traders_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 128))),
  constraint traders_login_has_email CHECK (((password_hash IS NULL) OR (email IS NOT NULL))),
  constraint traders_name_check CHECK ((length(name) <= 128)),
  constraint traders_password_hash_check CHECK (((length(password_hash) >= 50) AND (length(password_hash) <= 200)))
);
CREATE INDEX traders_disabled ON traders USING btree (disabled_at) WHERE (disabled_at IS NOT NULL);
CREATE UNIQUE INDEX traders_login ON traders USING btree (partner_id, lower((email COLLATE "C"))) WHERE (password_hash IS NOT NULL);
CREATE UNIQUE INDEX traders_number ON traders USING btree (number);

create table trading_halts (
  scope text collate "C" not null,
  subject text collate "C" not null,
  reason text not null,
  actor text not null,
  halted_at timestamp with time zone default clock_timestamp() not null,
  constraint trading_halts_pkey PRIMARY KEY (scope, subject),
  constraint trading_halts_check CHECK (((scope = 'all'::text) = (subject = ''::text))),
  constraint trading_halts_reason_check CHECK (((length(reason) >= 3) AND (length(reason) <= 500))),
  constraint trading_halts_scope_check CHECK ((scope = ANY (ARRAY['all'::text, 'partner'::text, 'application'::text, 'asset'::text])))
);

create table unowned_contracts (
  account_id text not null,
  contract_id text not null,
  evidence jsonb not null,
  found_at timestamp with time zone default now() not null,
  constraint unowned_contracts_pkey PRIMARY KEY (account_id, contract_id)
);

create table usage_hours (
  partner_id text collate "C" not null,
  hour timestamp with time zone not null,
  requests bigint not null,
  errors bigint not null,
  constraint usage_hours_pkey PRIMARY KEY (partner_id, hour),
  constraint usage_hours_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint usage_hours_check CHECK (((errors >= 0) AND (errors <= requests))),
  constraint usage_hours_requests_check CHECK ((requests >= 0))
);
CREATE INDEX usage_hours_old ON usage_hours USING btree (hour);

create table webhook_attempts (
  endpoint_id text collate "C" not null,
  partner_id text collate "C" not null,
  day date not null,
  id uuid not null,
  event_id uuid,
  "position" bigint,
  event_day date,
  type text not null,
  subject text collate "C",
  attempt integer not null,
  status text not null,
  http_status integer,
  ms integer,
  error text,
  response text,
  at timestamp with time zone not null,
  next_at timestamp with time zone,
  replay boolean not null,
  constraint webhook_attempts_pkey PRIMARY KEY (endpoint_id, id, day),
  constraint webhook_attempts_status_check CHECK ((status = ANY (ARRAY['DELIVERED'::text, 'RETRYING'::text, 'FAILED'::text])))
) partition by RANGE (day);

create table webhook_endpoints (
  id text collate "C" not null,
  partner_id text collate "C" not null,
  url text not null,
  types text[],
  description text,
  enabled boolean default true not null,
  disabled_reason text,
  disabled_at timestamp with time zone,
  secret_key_id text not null,
  secret_sealed bytea not null,
  old_key_id text,
  old_sealed bytea,
  old_until timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  "position" bigint not null,
  day date not null,
  gaps bigint[] default '{}'::bigint[] not null,
  failures integer default 0 not null,
  failing_since timestamp with time zone,
  last_error text,
  paused_until timestamp with time zone,
  missed bigint default 0 not null,
  next_at timestamp with time zone,
  worker text collate "C",
  lease integer default 0 not null,
  version integer default 0 not null,
  constraint webhook_endpoints_pkey PRIMARY KEY (id),
  constraint webhook_endpoints_partner_id_fkey FOREIGN KEY (partner_id) REFERENCES partners(id),
  constraint webhook_endpoints_check CHECK ((enabled = (disabled_at IS NULL))),
  constraint webhook_endpoints_disabled_reason_check CHECK ((disabled_reason = ANY (ARRAY['PARTNER'::text, 'OPERATOR'::text, 'GONE'::text, 'FAILURES'::text])))
);
CREATE INDEX webhook_endpoints_partner ON webhook_endpoints USING btree (partner_id, id);
CREATE INDEX webhook_endpoints_worker ON webhook_endpoints USING btree (worker);

create table webhook_pending (
  endpoint_id text collate "C" not null,
  partner_id text collate "C" not null,
  "position" bigint not null,
  day date not null,
  event_id uuid not null,
  type text not null,
  subject text collate "C" not null,
  delivery_id uuid not null,
  attempts integer not null,
  replay boolean not null,
  next_at timestamp with time zone not null,
  created_at timestamp with time zone default now() not null,
  constraint webhook_pending_pkey PRIMARY KEY (endpoint_id, "position"),
  constraint webhook_pending_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE
);

create table webhook_replays (
  id bigint generated always as identity not null,
  endpoint_id text collate "C" not null,
  partner_id text collate "C" not null,
  "position" bigint not null,
  day date not null,
  until_position bigint not null,
  types text[],
  created_at timestamp with time zone default now() not null,
  since timestamp with time zone,
  until timestamp with time zone,
  constraint webhook_replays_pkey PRIMARY KEY (id),
  constraint webhook_replays_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE
);
CREATE INDEX webhook_replays_endpoint ON webhook_replays USING btree (endpoint_id, id);

create table webhook_senders (
  worker text collate "C" not null,
  lease_until timestamp with time zone not null,
  constraint webhook_senders_pkey PRIMARY KEY (worker)
);

create table webhook_tests (
  id text collate "C" not null,
  endpoint_id text collate "C" not null,
  partner_id text collate "C" not null,
  channel text not null,
  worker text collate "C",
  created_at timestamp with time zone default clock_timestamp() not null,
  result jsonb,
  constraint webhook_tests_pkey PRIMARY KEY (id),
  constraint webhook_tests_endpoint_id_fkey FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE
);
CREATE INDEX webhook_tests_endpoint ON webhook_tests USING btree (endpoint_id);
CREATE INDEX webhook_tests_open ON webhook_tests USING btree (partner_id) WHERE (result IS NULL);
CREATE INDEX webhook_tests_waiting ON webhook_tests USING btree (created_at) WHERE (worker IS NULL);

CREATE OR REPLACE FUNCTION account_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select new.partner_id, case new.status when 'REJECTED' then 'account.rejected' else 'account.connected' end, new.id, t.external_id,
             jsonb_build_object('id', new.id, 'account_id', new.account_id, 'account_mode', new.account_mode, 'currency', new.currency,
               'status', new.status, 'rejected_reason', new.rejected_reason, 'connected_at', new.connected_at,
               'active_account_id', t.active_account_id)
        from traders t where t.id = new.trader_id;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION account_of_its_money()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      new.test := coalesce(is_test_side(nullif(split_part(new.id, ':', 2), '')), new.id in ('test_fees', 'test_world'));
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION account_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if (new.account_id like 'TST%') <> is_test_side(new.partner_id) then
        raise exception 'accounts of the test broker begin with TST, and no others do' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION analyse_table(name text, columns text[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    declare
      listed text;
    begin
      select ' (' || string_agg(format('%I', c), ', ') || ')' into listed from unnest(columns) c;
      execute format('analyze (skip_locked) %s%s', name::regclass, listed);
    end $function$;
CREATE OR REPLACE FUNCTION archive_partition(month date)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ select 'orders_archive_' || to_char(month, 'YYYYMM') $function$;
CREATE OR REPLACE FUNCTION audit_chain()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare
      last_seq bigint;
      last_hash bytea;
    begin
      perform pg_advisory_xact_lock(hashtext('audit_log'));
      select seq, hash into last_seq, last_hash from audit_log order by seq desc limit 1;
      new.seq := coalesce(last_seq, 0) + 1;
      new.hash := audit_hash(last_hash, new);
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION audit_hash(previous bytea, line audit_log)
 RETURNS bytea
 LANGUAGE sql
 STABLE
AS $function$
      select sha256(coalesce(previous, ''::bytea) || convert_to(jsonb_build_array(
        line.seq, line.id, to_char(line.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), line.actor, line.action,
        line.target, line.details)::text, 'UTF8'))
    $function$;
CREATE OR REPLACE FUNCTION audit_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      raise exception 'the audit log only grows: % is refused', lower(tg_op) using errcode = 'restrict_violation';
    end $function$;
CREATE OR REPLACE FUNCTION bot_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      new.test := is_test_side(new.partner_id);
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION check_day_partitions(parent text)
 RETURNS void
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
    begin
      if parent not in ('events', 'webhook_attempts', 'requests', 'request_groups') then
        raise exception '% has no daily partitions', parent;
      end if;
    end $function$;
CREATE OR REPLACE FUNCTION count_closes_delete()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare changes int;
    begin
      with lists as materialized (
        select l.* from (select -1 as sign, * from was_listed) l
          join analytics_step_groups g using (partner_id, account_mode, currency) where l.quarter < g.until
      ), changed as (
        insert into analytics_step_changes as c (partner_id, account_mode, currency, quarter, number, odd, trades, stake, pnl, markup, markup_unknown, had, last_at)
        select partner_id, account_mode, currency, quarter, number, false, sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)),
               coalesce(sum(sign) filter (where u.markup is null), 0), max(at) filter (where sign = -1), max(at) filter (where sign = 1)
          from lists cross join lateral unnest(numbers, closed_at, stake, pnl, markup) u (number, at, stake, pnl, markup)
         group by partner_id, account_mode, currency, quarter, number
        having (sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)), coalesce(sum(sign) filter (where u.markup is null), 0))
                 <> (0, 0, 0, 0, 0)
            or max(at) filter (where sign = -1) is distinct from max(at) filter (where sign = 1)
        on conflict (partner_id, account_mode, currency, quarter, number, odd) do update
          set trades = c.trades + excluded.trades, stake = c.stake + excluded.stake, pnl = c.pnl + excluded.pnl, markup = c.markup + excluded.markup,
              markup_unknown = c.markup_unknown + excluded.markup_unknown, last_at = excluded.last_at
        returning 1
      )
      select count(*) into changes from changed;
      if changes > 0 then
        delete from analytics_step_changes c using (select distinct partner_id, account_mode, currency, quarter from (select -1 as sign, * from was_listed) l) l
         where (c.partner_id, c.account_mode, c.currency, c.quarter) = (l.partner_id, l.account_mode, l.currency, l.quarter) and not odd
           and (trades, stake, pnl, markup, markup_unknown) = (0, 0, 0, 0, 0) and had is not distinct from last_at;
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION count_closes_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare changes int;
    begin
      insert into analytics_step_groups as g (partner_id, account_mode, currency, listed)
      select partner_id, account_mode, currency, sum(cardinality(numbers)) from now_listed group by partner_id, account_mode, currency order by partner_id, account_mode, currency
      on conflict (partner_id, account_mode, currency) do update set listed = g.listed + excluded.listed;
      with lists as materialized (
        select l.* from (select 1 as sign, * from now_listed) l
          join analytics_step_groups g using (partner_id, account_mode, currency) where l.quarter < g.until
      ), changed as (
        insert into analytics_step_changes as c (partner_id, account_mode, currency, quarter, number, odd, trades, stake, pnl, markup, markup_unknown, had, last_at)
        select partner_id, account_mode, currency, quarter, number, false, sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)),
               coalesce(sum(sign) filter (where u.markup is null), 0), max(at) filter (where sign = -1), max(at) filter (where sign = 1)
          from lists cross join lateral unnest(numbers, closed_at, stake, pnl, markup) u (number, at, stake, pnl, markup)
         group by partner_id, account_mode, currency, quarter, number
        having (sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)), coalesce(sum(sign) filter (where u.markup is null), 0))
                 <> (0, 0, 0, 0, 0)
            or max(at) filter (where sign = -1) is distinct from max(at) filter (where sign = 1)
        on conflict (partner_id, account_mode, currency, quarter, number, odd) do update
          set trades = c.trades + excluded.trades, stake = c.stake + excluded.stake, pnl = c.pnl + excluded.pnl, markup = c.markup + excluded.markup,
              markup_unknown = c.markup_unknown + excluded.markup_unknown, last_at = excluded.last_at
        returning 1
      )
      select count(*) into changes from changed;
      if changes > 0 then
        delete from analytics_step_changes c using (select distinct partner_id, account_mode, currency, quarter from (select 1 as sign, * from now_listed) l) l
         where (c.partner_id, c.account_mode, c.currency, c.quarter) = (l.partner_id, l.account_mode, l.currency, l.quarter) and not odd
           and (trades, stake, pnl, markup, markup_unknown) = (0, 0, 0, 0, 0) and had is not distinct from last_at;
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION count_closes_update()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare changes int;
    begin
      with lists as materialized (
        select l.* from (select 1 as sign, * from now_listed union all select -1, * from was_listed) l
          join analytics_step_groups g using (partner_id, account_mode, currency) where l.quarter < g.until
      ), changed as (
        insert into analytics_step_changes as c (partner_id, account_mode, currency, quarter, number, odd, trades, stake, pnl, markup, markup_unknown, had, last_at)
        select partner_id, account_mode, currency, quarter, number, false, sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)),
               coalesce(sum(sign) filter (where u.markup is null), 0), max(at) filter (where sign = -1), max(at) filter (where sign = 1)
          from lists cross join lateral unnest(numbers, closed_at, stake, pnl, markup) u (number, at, stake, pnl, markup)
         group by partner_id, account_mode, currency, quarter, number
        having (sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)), coalesce(sum(sign) filter (where u.markup is null), 0))
                 <> (0, 0, 0, 0, 0)
            or max(at) filter (where sign = -1) is distinct from max(at) filter (where sign = 1)
        on conflict (partner_id, account_mode, currency, quarter, number, odd) do update
          set trades = c.trades + excluded.trades, stake = c.stake + excluded.stake, pnl = c.pnl + excluded.pnl, markup = c.markup + excluded.markup,
              markup_unknown = c.markup_unknown + excluded.markup_unknown, last_at = excluded.last_at
        returning 1
      )
      select count(*) into changes from changed;
      if changes > 0 then
        delete from analytics_step_changes c using (select distinct partner_id, account_mode, currency, quarter from (select 1 as sign, * from now_listed union all select -1, * from was_listed) l) l
         where (c.partner_id, c.account_mode, c.currency, c.quarter) = (l.partner_id, l.account_mode, l.currency, l.quarter) and not odd
           and (trades, stake, pnl, markup, markup_unknown) = (0, 0, 0, 0, 0) and had is not distinct from last_at;
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION deployment_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, 'deployment.' || lower(new.status collate "C"), new.id, to_jsonb(new));
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION drop_archive_month(month date, exported bigint, exported_checksum text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    declare
      found record;
      until timestamptz;
    begin
      perform pg_advisory_xact_lock(hashtext('months of orders_archive'));
      if to_regclass(archive_partition(month)) is null then
        return false;
      end if;
      -- Nothing is added or changed from here on; readers go on.
      execute format('lock table %I in share mode', archive_partition(month));
      select * into found from sum_archive_month(month);
      if found.orders <> exported or found.checksum <> exported_checksum then
        return false;
      end if;
      execute format('select max(greatest(opened_at, closed_at)) from %I', archive_partition(month)) into until;
      execute format('drop table %I', archive_partition(month));
      update archive_months a
         set orders = 0, dropped = a.dropped + exported, dropped_at = now(),
             dropped_until = greatest(a.dropped_until, until, drop_archive_month.month::timestamp at time zone 'UTC')
       where a.month = drop_archive_month.month;
      return true;
    end $function$;
CREATE OR REPLACE FUNCTION drop_day_partition(parent text, first date)
 RETURNS date
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    declare
      oldest record;
    begin
      select * into oldest from oldest_day_partition(parent, first);
      if oldest.day is null then return null; end if;
      if parent = 'events' then
        execute format('update event_positions p set dropped = d.position
                          from event_positions q cross join lateral
                               (select e.position from %s e where e.partner_id = q.partner_id order by e.day desc, e.position desc limit 1) d
                         where p.partner_id = q.partner_id', oldest.part);
      end if;
      execute format('drop table %s', oldest.part);
      return oldest.day;
    end $function$;
CREATE OR REPLACE FUNCTION drop_event_day(first date)
 RETURNS date
 LANGUAGE sql
AS $function$ select drop_day_partition('events', first) $function$;
CREATE OR REPLACE FUNCTION drop_webhook_day(first date)
 RETURNS date
 LANGUAGE sql
AS $function$ select drop_day_partition('webhook_attempts', first) $function$;
CREATE OR REPLACE FUNCTION earnings_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into earnings_entries (account_id, created_at, version, kind, gross, net)
      select e.account_id, t.created_at, e.version, t.kind, case when t.kind = 'refund' then -t.amount::numeric else t.amount::numeric end, e.amount from (select new.*) e join ledger_transfers t on t.id = e.transfer_id where t.kind in ('sale', 'subscription', 'refund');
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION event_id()
 RETURNS uuid
 LANGUAGE sql
AS $function$
      select encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
        52, 1), 53, 1), 'hex')::uuid
    $function$;
CREATE OR REPLACE FUNCTION external_id_of(trader_id text)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
      select external_id from traders where id = trader_id
    $function$;
CREATE OR REPLACE FUNCTION fee_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into earnings_entries (account_id, created_at, version, kind, gross, net)
      select 'earnings:' || b.partner_id, t.created_at, -e.version, t.kind, case when t.kind = 'refund' then -t.amount::numeric else t.amount::numeric end, 0 from (select new.*) e join ledger_transfers t on t.id = e.transfer_id and t.amount::numeric = abs(e.amount::numeric) and t.kind in ('sale', 'subscription', 'refund')
          join marketplace_bots b on b.id = t.details->>'botId';
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION follow_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select new.partner_id, 'follow.paused', new.id, new.trader_external_id,
             to_jsonb(new) || jsonb_build_object('account_id', coalesce(new.account_id, a.account_id),
               'account_mode', coalesce(new.account_mode, a.account_mode), 'currency', coalesce(new.currency, a.currency),
               'open_copies', (select count(*) from orders o where o.follow_id = new.id
                                  and o.phase in ('unproven', 'queued', 'sending', 'open', 'review')))
        from traders t join broker_accounts a on a.id = coalesce(new.broker_account_id, t.active_account_id)
       where t.id = new.trader_id;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION follow_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if is_test_side(new.partner_id) <> (select is_test_side(partner_id) from traders where id = new.leader_id) then
        raise exception 'a follow does not cross sides' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION forget_day_traders()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      truncate analytics_day_traders, analytics_late_day_traders;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION forget_steps()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      truncate analytics_step_groups, analytics_steps, analytics_step_places, analytics_step_chunks, analytics_step_totals, analytics_step_changes;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION is_test_side(partner text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
      select test_of is not null from partners where id = partner
    $function$;
CREATE OR REPLACE FUNCTION keep_renewal()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      new.renew_at := now() + interval '50 minutes';
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION keep_test_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if tg_op = 'UPDATE' and new.test_of is distinct from old.test_of then
        raise exception 'a partner cannot change its side' using errcode = 'restrict_violation';
      end if;
      if new.test_of is not null and is_test_side(new.test_of) then
        raise exception 'a test side has no test side' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION key_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, case when new.revoked_at is null then 'key.created' else 'key.revoked' end, new.id,
        jsonb_build_object('id', new.id, 'partner_id', new.partner_id, 'lookup', new.lookup, 'label', new.label, 'scopes', new.scopes,
          'created_at', new.created_at, 'last_used_at', new.last_used_at, 'revoked_at', new.revoked_at, 'test', new.test));
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION key_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if new.test <> is_test_side(new.partner_id) then
        raise exception 'a test key belongs to a test side, and no other key does' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION ledger_apply_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if exists (select from ledger_entries where transfer_id = new.transfer_id and account_id = new.account_id) then
        raise exception 'transfer % has an entry of % already', new.transfer_id, new.account_id using errcode = 'unique_violation';
      end if;
      update ledger_accounts set balance = round(balance + new.amount, 2), version = version + 1
       where id = new.account_id
       returning balance, version into new.balance, new.version;
      if not found then
        raise exception 'account % is not open', new.account_id using errcode = 'foreign_key_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION ledger_check_entries()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare wrong text;
    begin
      select t.id into wrong
        from ledger_transfers t join ledger_entries e on e.transfer_id = t.id join ledger_accounts a on a.id = e.account_id
       where t.id in (select transfer_id from fresh)
       group by t.id, a.test
      having sum(e.amount) <> 0 or sum(e.amount) filter (where e.amount > 0) is distinct from t.amount
       limit 1;
      if wrong is not null then
        raise exception 'transfer % does not balance', wrong using errcode = 'check_violation';
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION ledger_check_transfers()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare wrong text;
    begin
      select t.id into wrong from fresh t
       where not exists (select from ledger_entries e where e.transfer_id = t.id) limit 1;
      if wrong is not null then
        raise exception 'transfer % has no entries', wrong using errcode = 'check_violation';
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION ledger_opens_empty()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if new.balance <> 0 or new.version <> 0 then
        raise exception 'account % must be opened empty', new.id using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION ledger_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      raise exception 'the ledger only grows: % of % is refused', lower(tg_op), tg_table_name
        using errcode = 'restrict_violation';
    end $function$;
CREATE OR REPLACE FUNCTION make_archive_months(months date[])
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    declare
      month date;
      made int := 0;
    begin
      perform pg_advisory_xact_lock(hashtext('months of orders_archive'));
      foreach month in array months loop
        month := date_trunc('month', month)::date;
        if to_regclass(archive_partition(month)) is null then
          execute format('create table %I (like orders_archive including all)', archive_partition(month));
          execute format('alter table orders_archive attach partition %I for values from (%L) to (%L)', archive_partition(month),
            to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
          made := made + 1;
        end if;
      end loop;
      return made;
    end $function$;
CREATE OR REPLACE FUNCTION make_day_partitions(parent text, first date, last date)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
    declare
      day date := first;
      made int := 0;
      part text;
    begin
      perform check_day_partitions(parent);
      -- Several processes may find at once that a day is missing.
      perform pg_advisory_xact_lock(hashtext('day partitions of ' || parent));
      while day <= last loop
        part := parent || '_' || to_char(day, 'YYYYMMDD');
        if to_regclass(part) is null then
          execute format('create table %I (like %I including all)', part, parent);
          execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, part, day, day + 1);
          made := made + 1;
        end if;
        day := day + 1;
      end loop;
      return made;
    end $function$;
CREATE OR REPLACE FUNCTION make_event_days(first date, last date)
 RETURNS integer
 LANGUAGE sql
AS $function$ select make_day_partitions('events', first, last) $function$;
CREATE OR REPLACE FUNCTION make_webhook_days(first date, last date)
 RETURNS integer
 LANGUAGE sql
AS $function$ select make_day_partitions('webhook_attempts', first, last) $function$;
CREATE OR REPLACE FUNCTION mark_day_traders()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      with days as materialized (
        select distinct partner_id, (quarter at time zone 'UTC')::date as day from changed where grouping_by = ''
      ), marked as (
        insert into analytics_late_day_traders select partner_id, day from days
      )
      delete from analytics_day_traders d using days
       where d.partner_id = days.partner_id and d.account_mode in ('REAL', 'DEMO', 'ALL') and d.day = days.day;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION mark_late_analytics()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if new.opened_at < now() - interval '5 minutes' then
        insert into analytics_late_quarters
        values (new.partner_id, date_bin('15 minutes', new.opened_at, timestamptz '2000-01-01 00:00+00'));
      end if;
      if new.closed_at < now() - interval '5 minutes' then
        insert into analytics_late_closes
        values (new.partner_id, date_bin('15 minutes', new.closed_at, timestamptz '2000-01-01 00:00+00'));
        insert into analytics_late_days values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      end if;
      if tg_op = 'UPDATE' then
        if old.opened_at <> new.opened_at and old.opened_at < now() - interval '5 minutes' then
          insert into analytics_late_quarters
          values (old.partner_id, date_bin('15 minutes', old.opened_at, timestamptz '2000-01-01 00:00+00'));
        end if;
        if old.closed_at <> new.closed_at and old.closed_at < now() - interval '5 minutes' then
          insert into analytics_late_closes
          values (old.partner_id, date_bin('15 minutes', old.closed_at, timestamptz '2000-01-01 00:00+00'));
          insert into analytics_late_days values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
        end if;
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION mark_late_order()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into trader_days_late values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION mirror_test_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      update partners set name = new.name, plan = new.plan, next_plan = new.next_plan, plan_active = new.plan_active,
             suspended_at = new.suspended_at, suspended_reason = new.suspended_reason, key_limit = new.key_limit,
             trader_limit = new.trader_limit, period_start = new.period_start, period_end = new.period_end, active_since = new.active_since
       where test_of = new.id;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION note_archived_traders()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into archived_traders as a (trader_id, partner_id, newest)
      select trader_id, partner_id, max(created_at) from fresh group by 1, 2 order by 1
      on conflict (trader_id) do update set newest = excluded.newest where a.newest < excluded.newest;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION of_the_bots_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if is_test_side(new.partner_id) <> (select test from marketplace_bots where id = new.bot_id) then
        raise exception '% does not cross sides', tg_table_name using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION oldest_day_partition(parent text, first date, OUT part regclass, OUT day date)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
AS $function$
    begin
      perform check_day_partitions(parent);
      select c.oid::regclass, to_date(right(c.relname, 8), 'YYYYMMDD') into part, day
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = parent::regclass order by c.relname limit 1;
      if day >= first then
        part := null;
        day := null;
      end if;
    end $function$;
CREATE OR REPLACE FUNCTION order_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare
      told text := case new.phase when 'closed' then 'order.closed' when 'failed' then 'order.failed'
                     when 'review' then 'order.review' else 'order.opened' end;
      -- Binary contracts have none.
      limits jsonb := case when new.kind = 'MULTIPLIER' then
        jsonb_build_object('stop_loss', new.stop_loss, 'take_profit', new.take_profit) end;
    begin
      if new.phase = 'open' and old.phase = 'open' then told := 'order.review'; end if;
      if new.phase = 'closed' and old.phase <> 'open' then
        insert into event_outbox (partner_id, type, subject, trader, facts)
        values (new.partner_id, 'order.opened', new.id, new.trader_external_id, limits);
      end if;
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, told, new.id, new.trader_external_id,
        case when told in ('order.failed', 'order.review') then jsonb_build_object(
          'status', new.status, 'error_code', new.error_code, 'error_message', new.error_message, 'retryable', new.retryable,
          'currency', new.currency, 'stake_in_account', new.stake_in_account, 'exchange_rate', new.exchange_rate,
          'broker_order_id', new.broker_order_id, 'buy_price', new.buy_price, 'payout', new.payout, 'opened_at', new.opened_at,
          'commission', new.commission, 'markup', new.markup) || coalesce(limits, '{}')
          when told = 'order.opened' then limits end);
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION order_name(partner_id text, client_order_id text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$ select encode(substring(sha256(convert_to(partner_id || ' ' || client_order_id, 'UTF8')) for 16), 'hex')::uuid $function$;
CREATE OR REPLACE FUNCTION order_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if (new.account_id like 'TST%') <> (new.dialect = 'test') then
        raise exception 'an order of the test side goes to the test broker, and no other does' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION pack_requests()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin

  with placed as (
    select *, floor(extract(epoch from at) / 5) as span,
           concat_ws(E'\t', operation, method, status, coalesce(error, ''), coalesce(key_id, ''), path) collate "C" as shape
      from written
  ), cut as (
    select *, (row_number() over (partition by partner_id, day, span order by n) - 1) / 500 as part from placed
  ), numbered as (
    select *, dense_rank() over (partition by partner_id, day, span, part order by shape) - 1 as shape_n from cut
  )
  insert into request_groups (partner_id, day, from_at, last_at, entries, worst, ids, shapes, data)
  select partner_id, day, to_timestamp(span * 5), max(date_trunc('milliseconds', at)), count(*), max(status),
         array_agg(request_id_hash(request_id) order by n), string_agg(distinct shape, E'\n' order by shape),
         string_agg(concat_ws(E'\t', shape_n, floor((extract(epoch from at) - span * 5) * 1000), round(ms::numeric, 1), request_id,
                              coalesce(trader, '')), E'\n' order by n)
    from numbered group by partner_id, day, span, part order by min(n);
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION payout_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, 'payout.' || lower(new.status collate "C"), new.id, external_id_of(new.party_id),
        to_jsonb(new) || jsonb_build_object('amount', new.amount::text, 'trader_external_id', external_id_of(new.party_id)));
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION plan_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.id, case when new.plan_active then 'plan.active' else 'plan.inactive' end, new.id,
        jsonb_build_object('plan', new.plan, 'plan_active', new.plan_active, 'suspended', new.suspended_at is not null,
          'period_end', new.period_end,
          'balance', (select coalesce(sum(balance), 0)::text from ledger_accounts where id = 'wallet:' || coalesce(new.test_of, new.id))));
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION purchase_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    declare
      told text := case new.status when 'REFUNDED' then 'bot.refunded' else 'bot.purchased' end;
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, told, new.id, external_id_of(new.party_id),
        jsonb_build_object('side', 'buyer', 'id', new.id, 'bot_id', new.bot_id, 'price', new.price::text, 'status', new.status,
          'purchased_at', new.purchased_at, 'refunded_at', new.refunded_at));
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select b.partner_id, told, new.id, external_id_of(b.party_id),
             jsonb_build_object('side', 'creator', 'id', new.id, 'bot_id', new.bot_id, 'price', new.price::text,
               'net', (new.price - new.fee)::text, 'status', new.status)
        from marketplace_bots b where b.id = new.bot_id;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION refuse_archived_contract()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if exists (select from orders_archive where broker_order_id = new.broker_order_id and account_id = new.account_id) then
        raise exception 'the contract % of % has an order in the archive', new.broker_order_id, new.account_id
          using errcode = 'unique_violation', constraint = 'orders_contract';
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION refuse_archived_names()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if exists (select from fresh where client_order_id is not null
                    and coalesce((select true from archived_names n where n.name = order_name(fresh.partner_id, fresh.client_order_id) limit 1), false)) then
        raise exception 'the order of this clientOrderId was archived meanwhile' using errcode = 'serialization_failure';
      end if;
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION request_id_hash(id text)
 RETURNS integer
 LANGUAGE plpgsql
 IMMUTABLE STRICT
AS $function$
    declare
      hash bigint := 2166136261;
    begin
      for i in 1..length(id) loop
        hash := ((hash # ascii(substr(id, i, 1))) * 16777619) & 4294967295;
      end loop;
      return (hash - case when hash > 2147483647 then 4294967296 else 0 end)::int;
    end $function$;
CREATE OR REPLACE FUNCTION site_of_its_side()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if (new.tenant_slug like 'test~%') <> is_test_side(new.partner_id) then
        raise exception 'sites of test sides begin with test~, and no others do' using errcode = 'restrict_violation';
      end if;
      return new;
    end $function$;
CREATE OR REPLACE FUNCTION spend_calls(of_scope text, by_worker text, wanted integer, windows jsonb, keep_ms integer, within_ms integer, OUT granted integer, OUT retry_ms double precision)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
    declare
      asked_at timestamptz;
      last_call timestamptz;
    begin
      perform pg_advisory_xact_lock(hashtextextended(of_scope, 0));
      asked_at := clock_timestamp();
      last_call := asked_at + within_ms * interval '1 millisecond';
      with spent as (
        select w."limit" - coalesce(r.calls, 0) as left_over,
               extract(epoch from r.oldest - asked_at) * 1000 + w."windowMs" as retry_ms
          from jsonb_to_recordset(windows) as w ("windowMs" int, "limit" int)
         cross join lateral (select sum(calls) as calls, min(spent_until) as oldest from call_records
                              where scope = of_scope and spent_until > asked_at - w."windowMs" * interval '1 millisecond') r
      )
      select greatest(0, least(wanted, min(s.left_over)))::int, greatest(0, max(s.retry_ms) filter (where s.left_over <= 0))::float8
        into granted, retry_ms from spent s;
      retry_ms := coalesce(retry_ms, 0);
      if granted > 0 then
        update call_records set calls = calls + granted
         where ctid = (select ctid from call_records where scope = of_scope and class = 'shared' and spent_until >= last_call
                        order by spent_until desc limit 1);
        if not found then
          insert into call_records (scope, worker, class, window_ms, calls, spent_until)
          values (of_scope, by_worker, 'shared', keep_ms, granted, last_call + interval '1 second');
        end if;
      end if;
    end $function$;
CREATE OR REPLACE FUNCTION subscription_events()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, 'subscription.past_due', new.id, external_id_of(new.party_id),
        to_jsonb(new) || jsonb_build_object('price', new.price::text));
      return null;
    end $function$;
CREATE OR REPLACE FUNCTION sum_archive_month(month date, OUT orders bigint, OUT checksum text)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET "TimeZone" TO 'UTC'
 SET bytea_output TO 'hex'
AS $function$
    begin
      if to_regclass(archive_partition(month)) is null then
        orders := 0;
        checksum := '0';
        return;
      end if;
      execute format($sum$
        select count(*), coalesce(sum(('x' || encode(substring(sha256(convert_to(to_jsonb(o)::text, 'UTF8')) for 7), 'hex'))::bit(56)::bigint), 0)::text
          from %I o $sum$, archive_partition(month)) into orders, checksum;
    end $function$;
create aggregate sum_few(bigint) (sfunc = int8pl, stype = bigint);
create aggregate sum_few(numeric) (sfunc = numeric_add, stype = numeric);

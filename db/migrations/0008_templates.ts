// Deployed sites and their rendered files. The files are in the database, so that every API process on
// every machine serves the same site; they are few and small, and the CHECKs keep them so.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table deployments (
      id             text collate "C" primary key,
      partner_id     text not null references partners,
      template       text not null,
      -- one address, one site, across all partners
      tenant_slug    text not null unique check (tenant_slug ~ '^[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$'),
      brand_name     text not null check (length(brand_name) between 2 and 60),
      primary_color  text not null check (primary_color ~ '^#[0-9a-fA-F]{6}$'),
      contact_email  text check (length(contact_email) <= 254),
      status         text not null check (status in ('QUEUED', 'LIVE', 'FAILED')),
      -- counts deployments to this address: a render of an older one changes nothing
      revision       int not null default 1,
      created_at     timestamptz not null default now(),
      updated_at     timestamptz not null default now()
    );
    create index deployments_of_partner on deployments (partner_id, created_at, id);
    create index deployments_queued on deployments (updated_at) where status = 'QUEUED';

    create table site_files (
      deployment_id  text collate "C" not null references deployments on delete cascade,
      path           text not null check (length(path) between 1 and 100),
      content_type   text not null,
      body           bytea not null check (octet_length(body) <= 262144),
      etag           text not null,
      primary key (deployment_id, path)
    );
  `)
}

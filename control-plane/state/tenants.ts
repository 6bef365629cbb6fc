/** Reads organisations, members and keys from the state, for the admin API. A key's state is computed from the time given. */
import type { ApiKey, Member, Organisation } from '../../schemas/admin/admin.ts';
import { keyStateSchema } from '../../schemas/names.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first, moment, present, sqlLimit } from '../../shared/runtime/statements.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { Listing } from './list-page.ts';

/** Row of a created key. A row without a hash is the revocation of a key that was never created. */
type KeyRow = Required<{
  [Column in keyof RowOf<'api_key'>]: Column extends 'organisation' | 'name' | 'expires' | 'created_by'
    ? NonNullable<RowOf<'api_key'>[Column]>
    : RowOf<'api_key'>[Column];
}>;

function toOrganisation({ id, name, tier, anchor, suspended }: RowOf<'organisation'>): Organisation {
  return { id, name, tier, anchor, suspended: suspended === 1 };
}

export function listOrganisations(db: Database, limit?: number): Organisation[] {
  const sql = 'SELECT * FROM organisation ORDER BY id LIMIT ?';
  return all<RowOf<'organisation'>>(db, sql, sqlLimit(limit)).map(toOrganisation);
}

export const organisationListing: Listing<RowOf<'organisation'>, Organisation> = {
  table: 'organisation',
  indexed: ['id'],
  sorts: {
    id: 'id',
    name: 'lower(name)',
    tier: "coalesce(tier, '')",
    suspended: 'suspended',
  },
  searched: ['id', 'name', 'tier', "CASE WHEN suspended = 1 THEN 'suspended' ELSE 'active' END"],
  key: ['id'],
  item: toOrganisation,
};

export function findOrganisation(db: Database, id: string): Organisation | undefined {
  const row = first<RowOf<'organisation'>>(db, 'SELECT * FROM organisation WHERE id = ?', id);
  return row && toOrganisation(row);
}

export function organisationsOnTier(db: Database, tier: string): Organisation[] {
  const rows = all<RowOf<'organisation'>>(db, 'SELECT * FROM organisation WHERE tier = ? ORDER BY id', tier);
  return rows.map(toOrganisation);
}

export function countOnTier(db: Database, tier: string): number {
  return first<{ n: number }>(db, 'SELECT count(*) AS n FROM organisation WHERE tier = ?', tier)?.n ?? 0;
}

/** Returns the sum of tokens that operators added to or subtracted from a period's usage. */
export function findAdjustment(db: Database, organisation: string, period: string): number {
  const sql = 'SELECT tokens FROM usage_adjustment WHERE organisation = ? AND period = ?';
  return first<{ tokens: number }>(db, sql, organisation, period)?.tokens ?? 0;
}

export function listMembers(db: Database, organisation?: string, limit?: number): Member[] {
  const order = 'ORDER BY organisation, person LIMIT ?';
  return organisation === undefined
    ? all(db, `SELECT * FROM member ${order}`, sqlLimit(limit))
    : all(db, `SELECT * FROM member WHERE organisation = ? ${order}`, organisation, sqlLimit(limit));
}

export const memberListing: Listing<RowOf<'member'>, Member> = {
  table: 'member',
  indexed: ['organisation'],
  sorts: { organisation: 'organisation', person: 'person', role: 'role' },
  searched: ['organisation', 'person', 'role'],
  key: ['organisation', 'person'],
  item: ({ organisation, person, role }) => ({ organisation, person, role }),
};

export function findMember(db: Database, organisation: string, person: string): Member | undefined {
  return first(db, 'SELECT * FROM member WHERE organisation = ? AND person = ?', organisation, person);
}

export function listMemberships(db: Database, person: string): Member[] {
  return all(db, 'SELECT * FROM member WHERE person = ? ORDER BY organisation', person);
}

function toKey(row: KeyRow, nowMs: number): ApiKey {
  const expired = row.expires_at !== null && row.expires_at <= nowMs;
  return {
    id: row.id,
    organisation: row.organisation,
    name: row.name,
    expires: row.expires,
    expiresAt: moment(row.expires_at),
    createdAt: moment(row.created_at),
    createdBy: row.created_by,
    state: row.revoked_at !== null ? 'revoked' : expired ? 'expired' : 'active',
    ...present({ revokedAt: moment(row.revoked_at), revokedBy: row.revoked_by }),
  };
}

// Does not list rows without a hash, because they are revocations of keys that were never created.
export const keyListing: Listing<KeyRow, ApiKey> = {
  table: 'api_key',
  unlisted: 'hash IS NULL',
  from: `(SELECT *, CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= ? THEN 'expired'
    ELSE 'active' END AS state FROM api_key WHERE hash IS NOT NULL)`,
  hasClock: true,
  states: keyStateSchema.options,
  indexed: ['createdAt', 'id', 'organisation'],
  sorts: {
    createdAt: 'created_at',
    name: 'lower(name)',
    id: 'id',
    state: 'state',
    organisation: 'organisation',
    expiresAt: `coalesce(expires_at, ${Number.MAX_SAFE_INTEGER})`,
    createdBy: 'created_by',
  },
  searched: ['name', 'id', 'state', 'organisation', 'created_by'],
  key: ['id'],
  item: (row, _db, nowMs) => toKey(row, nowMs),
};

export function findKey(db: Database, id: string, nowMs: number): ApiKey | undefined {
  const row = first<KeyRow>(db, 'SELECT * FROM api_key WHERE id = ? AND hash IS NOT NULL', id);
  return row && toKey(row, nowMs);
}

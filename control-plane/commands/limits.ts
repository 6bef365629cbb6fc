/**
 * How many resources the state may hold. The writer enforces these bounds, so that every reader can rely on them.
 * Checked over the events of a command, whichever command made them.
 */
import type { KnownEvent } from '../../schemas/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { CommandError } from '../core/command-error.ts';
import { findBounds } from '../state/catalog.ts';
import { count, first } from '../state/statements.ts';

export const cardinalityLimits = {
  organisations: 10_000,
  keys: 1_000_000,
  membersPerOrganisation: 10_000,
  nodes: 10_000,
  stacks: 50_000,
  stacksPerOrganisation: 1_000,
  models: 10_000,
  tiers: 100,
  tokensPerNode: 100,
} as const;

/** One bound against which an added resource counts. */
interface Bound {
  readonly name: keyof typeof cardinalityLimits | 'activeKeysPerOrganisation' | 'keysPerOrganisation';
  /** Whose bound it is, where each organisation or node has its own. */
  readonly of: string;
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

function bound(name: Bound['name'], sql: string, of = '', ...values: SqlValue[]): Bound {
  return { name, of, sql, values: of === '' ? values : [of, ...values] };
}

function has(db: Database, sql: string, ...values: SqlValue[]): boolean {
  return first(db, sql, ...values) !== undefined;
}

/** The bounds against which an event counts; none where it only changes what is there. */
function boundsOf(db: Database, event: KnownEvent, nowMs: number): Bound[] {
  const { type, data } = event;
  switch (type) {
    case 'organisation.set':
      if (has(db, 'SELECT 1 FROM organisation WHERE id = ?', data.id)) return [];
      return [bound('organisations', 'SELECT count(*) FROM organisation')];
    case 'model.set':
      if (has(db, 'SELECT 1 FROM model WHERE id = ?', data.id)) return [];
      return [bound('models', 'SELECT count(*) FROM model')];
    case 'tier.set':
      if (has(db, 'SELECT 1 FROM tier WHERE id = ?', data.id)) return [];
      return [bound('tiers', 'SELECT count(*) FROM tier WHERE rank IS NOT NULL')];
    case 'node.registered':
      if (has(db, 'SELECT 1 FROM node WHERE id = ?', data.id)) return [];
      return [bound('nodes', 'SELECT count(*) FROM node')];
    case 'member.set': {
      const { organisation, person } = data;
      if (has(db, 'SELECT 1 FROM member WHERE organisation = ? AND person = ?', organisation, person))
        return [];
      const sql = 'SELECT count(*) FROM member WHERE organisation = ?';
      return [bound('membersPerOrganisation', sql, organisation)];
    }
    case 'stack.created': {
      const sql = 'SELECT count(*) FROM stack WHERE organisation = ?';
      return [
        bound('stacks', 'SELECT count(*) FROM stack'),
        bound('stacksPerOrganisation', sql, data.organisation),
      ];
    }
    case 'key.created': {
      const sql =
        'SELECT count(*) FROM api_key WHERE organisation = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)';
      return [
        bound('keys', 'SELECT count(*) FROM api_key'),
        bound('activeKeysPerOrganisation', sql, data.organisation, nowMs),
        bound(
          'keysPerOrganisation',
          'SELECT count(*) FROM api_key WHERE organisation = ?',
          data.organisation,
        ),
      ];
    }
    case 'node.token_created': {
      const sql = 'SELECT count(*) FROM node_token WHERE node = ? AND revoked_at IS NULL';
      return [bound('tokensPerNode', sql, data.node)];
    }
    default:
      return [];
  }
}

/** Throws CommandError Conflict where these events would exceed a limit. Their removals are not subtracted. */
export function checkCardinality(db: Database, events: readonly KnownEvent[], nowMs: number): void {
  const added = new Map<string, { bound: Bound; more: number }>();
  for (const event of events) {
    for (const each of boundsOf(db, event, nowMs)) {
      const id = `${each.name} ${each.of}`;
      const before = added.get(id);
      added.set(id, { bound: each, more: (before?.more ?? 0) + 1 });
    }
  }
  const limits = { ...cardinalityLimits, ...findBounds(db) };
  for (const { bound: each, more } of added.values()) {
    const max = limits[each.name];
    const there = count(db, each.sql, ...each.values);
    if (there + more > max)
      throw new CommandError(
        'Conflict',
        `there may be at most ${max} of ${each.name}${each.of && ` (${each.of})`}; there are ${there}, and this adds ${more}`,
        { next: 'remove what is no longer needed first' },
      );
  }
}

/** All event types, with their effect on requests, and the resources they add or remove. A missing type fails the build. */
import { dayMs } from '../../schemas/durations.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import type { EventData, KnownEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { all, first } from '../../shared/runtime/statements.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { dayNumber } from '../../shared/snapshot/key-counts.ts';
import { keyEndSql } from '../../shared/snapshot/tables.ts';

/** Maximum number of resources of each kind. */
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

type BoundName = keyof typeof cardinalityLimits | 'activeKeysPerOrganisation' | 'keysPerOrganisation';

/** Advice to the operator on what to do when a bound has been reached. */
export const roomFor: Readonly<Record<BoundName, string>> = {
  organisations: 'remove unused organisations',
  keys: 'revoke unused keys: revoked and expired keys do not count',
  membersPerOrganisation: 'remove members from the organisation',
  nodes: 'remove nodes that no longer exist',
  stacks: 'remove unused stacks',
  stacksPerOrganisation: 'remove stacks that the organisation does not use',
  models: 'remove models from the catalog',
  tiers: 'remove tiers that no organisation uses',
  tokensPerNode: 'revoke tokens of the node: revoked ones do not count',
  activeKeysPerOrganisation:
    'revoke keys that the organisation does not use, or raise activeKeysPerOrganisation in the bounds of the fleet',
  keysPerOrganisation:
    'raise keysPerOrganisation in the bounds of the fleet, or wait: ended keys count until the control plane forgets them (--forget-keys-after)',
};

interface Count {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/** Bound on the number of resources, with the query that counts them. */
export interface Bound extends Count {
  readonly name: BoundName;
  /** Id of the organisation or node that the bound applies to, or an empty string if it applies to the whole fleet. */
  readonly of: string;
  /** Exact but slower count. It runs only if the fast count, which may be too high, exceeds the bound. */
  readonly exact?: Count;
}

/** Queries that count each kind of resource that can be removed. */
export const resourceTotals = {
  model: 'SELECT count(*) FROM model',
  tier: 'SELECT count(*) FROM tier WHERE rank IS NOT NULL',
  organisation: 'SELECT count(*) FROM organisation',
  member: 'SELECT count(*) FROM member',
  key: 'SELECT count(*) FROM api_key',
  stack: 'SELECT count(*) FROM stack',
  node: 'SELECT count(*) FROM node',
  install: 'SELECT (SELECT count(*) FROM pool_model) + (SELECT count(*) FROM stack_model)',
  token: 'SELECT count(*) FROM node_token',
} as const;
export type ResourceKind = keyof typeof resourceTotals;

type Removal = readonly [kind: ResourceKind, id: string];

/**
 * Effect of an event on requests. `nothing`: every request has the same outcome as before. `serves`: some refused requests
 * are now served, or the event only follows what nodes do. `refuses`: some served requests may now be refused. `meant`:
 * refusing requests is the purpose of the event, or its command has a guard of its own.
 */
export type AnswerEffect = 'nothing' | 'serves' | 'refuses' | 'meant';

interface CountedEvent<Data> {
  readonly answers: AnswerEffect;
  /** Returns the bounds against which the event counts, or none if the event only changes existing resources. */
  adds?(db: Database, data: Data, nowMs: number): readonly Bound[];
  removes?(db: Database, data: Data): readonly Removal[];
}

function bound(name: Bound['name'], sql: string, of = '', ...values: SqlValue[]): Bound {
  return { name, of, sql, values: of === '' ? values : [of, ...values] };
}

/** Returns the given bounds, or none if the resource already exists. */
function ifNew(
  db: Database,
  table: 'tier' | 'model' | 'organisation' | 'node',
  id: string,
  bounds: readonly Bound[],
): readonly Bound[] {
  return first(db, `SELECT 1 FROM ${table} WHERE id = ?`, id) === undefined ? bounds : [];
}

type Dependents = readonly (readonly [kind: ResourceKind, sql: string])[];

/** Queries for resources removed with an organisation or stack, whose id is the parameter. Each result row has an `id`. */
const ofOrganisation: Dependents = [
  ['member', `SELECT organisation || '/' || person AS id FROM member WHERE organisation = ?`],
  ['key', 'SELECT id FROM api_key WHERE organisation = ?'],
  ['stack', 'SELECT id FROM stack WHERE organisation = ?'],
  ['node', `SELECT id FROM node WHERE place = 'organisation:' || ?`],
];
const ofStack: Dependents = [
  ['install', `SELECT stack || '/' || model AS id FROM stack_model WHERE stack = ?`],
  ['node', `SELECT id FROM node WHERE place = 'stack:' || ?`],
];

function listDependents(db: Database, what: Dependents, id: string): Removal[] {
  return what.flatMap(([kind, sql]) =>
    all<{ id: string }>(db, sql, id).map((row): Removal => [kind, row.id]),
  );
}

function removedStack(db: Database, id: string): Removal[] {
  return [['stack', id], ...listDependents(db, ofStack, id)];
}

function removedOrganisation(db: Database, id: string): Removal[] {
  const own = listDependents(db, ofOrganisation, id);
  const stacks = own.filter(([kind]) => kind === 'stack').flatMap(([, stack]) => removedStack(db, stack));
  return [['organisation', id], ...own, ...stacks];
}

const keysOnDays = 'SELECT coalesce(sum(keys), 0) FROM key_count WHERE organisation = ?';

/** Counts active keys of one organisation or of all. Omits keys that expired today only if the count exceeds the bound. */
function activeKeys(name: BoundName, nowMs: number, organisation = ''): Bound {
  const today = dayNumber(nowMs);
  const sql = `${keysOnDays} AND day >= ?`;
  const values = [organisation, today];
  const [whose, owner] = organisation === '' ? ['IS NOT NULL', []] : ['= ?', [organisation]];
  const ended = `SELECT count(*) FROM api_key WHERE organisation ${whose} AND ${keyEndSql} BETWEEN ? AND ?`;
  const exact = {
    sql: `SELECT (${sql}) - (${ended})`,
    values: [...values, ...owner, today * dayMs, nowMs],
  };
  return { name, of: organisation, sql, values, exact };
}

export const countedEvents: { readonly [Name in EventTypeName]: CountedEvent<EventData<Name>> } = {
  'log.created': { answers: 'nothing' },
  'log.signers_set': { answers: 'nothing' },
  'tier.set': {
    answers: 'refuses',
    adds: (db, { id }) =>
      ifNew(db, 'tier', id, [bound('tiers', 'SELECT count(*) FROM tier WHERE rank IS NOT NULL')]),
  },
  'tier.removed': { answers: 'refuses', removes: (_db, { id }) => [['tier', id]] },
  'anonymous.set': { answers: 'refuses' },
  'anonymous.removed': { answers: 'refuses' },
  'bounds.set': { answers: 'nothing' },
  'model.set': {
    answers: 'refuses',
    adds: (db, { id }) => ifNew(db, 'model', id, [bound('models', 'SELECT count(*) FROM model')]),
  },
  'model.removed': { answers: 'refuses', removes: (_db, { id }) => [['model', id]] },
  'organisation.set': {
    answers: 'refuses',
    adds: (db, { id }) =>
      ifNew(db, 'organisation', id, [bound('organisations', 'SELECT count(*) FROM organisation')]),
  },
  'organisation.suspended': { answers: 'meant' },
  'organisation.removed': { answers: 'meant', removes: (db, { id }) => removedOrganisation(db, id) },
  'member.set': {
    answers: 'nothing',
    adds: (db, { organisation, person }) => {
      const there = 'SELECT 1 FROM member WHERE organisation = ? AND person = ?';
      if (first(db, there, organisation, person) !== undefined) return [];
      const sql = 'SELECT count(*) FROM member WHERE organisation = ?';
      return [bound('membersPerOrganisation', sql, organisation)];
    },
  },
  'member.removed': {
    answers: 'nothing',
    removes: (_db, { organisation, person }) => [['member', `${organisation}/${person}`]],
  },
  'key.created': {
    answers: 'nothing',
    adds: (_db, { organisation }, nowMs) => [
      activeKeys('keys', nowMs),
      activeKeys('activeKeysPerOrganisation', nowMs, organisation),
      bound('keysPerOrganisation', keysOnDays, organisation),
    ],
  },
  'key.revoked': { answers: 'meant', removes: (_db, { id }) => [['key', id]] },
  // A key is forgotten only after it has ended. Its requests are refused before and after, so the event changes nothing.
  'key.forgotten': { answers: 'nothing' },
  'usage.adjusted': { answers: 'refuses' },
  'stack.created': {
    answers: 'nothing',
    adds: (_db, { organisation }) => [
      bound('stacks', 'SELECT count(*) FROM stack'),
      bound('stacksPerOrganisation', 'SELECT count(*) FROM stack WHERE organisation = ?', organisation),
    ],
  },
  'stack.surface_set': { answers: 'refuses' },
  'stack.removed': { answers: 'refuses', removes: (db, { id }) => removedStack(db, id) },
  'stack.model_installed': { answers: 'serves' },
  'stack.model_uninstalled': {
    answers: 'refuses',
    removes: (_db, { stack, model }) => [['install', `${stack}/${model}`]],
  },
  'pool.model_installed': { answers: 'serves' },
  'pool.model_uninstalled': {
    answers: 'refuses',
    removes: (_db, { model }) => [['install', `pool/${model}`]],
  },
  'node.registered': {
    answers: 'refuses',
    adds: (db, { id }) => ifNew(db, 'node', id, [bound('nodes', 'SELECT count(*) FROM node')]),
  },
  'node.drained': { answers: 'meant' },
  'node.undrained': { answers: 'serves' },
  'node.removed': { answers: 'refuses', removes: (_db, { id }) => [['node', id]] },
  'node.token_created': {
    answers: 'nothing',
    adds: (_db, { node }) => {
      const sql = 'SELECT count(*) FROM node_token WHERE node = ? AND revoked_at IS NULL';
      return [bound('tokensPerNode', sql, node)];
    },
  },
  'node.token_revoked': { answers: 'nothing', removes: (_db, { id }) => [['token', id]] },
  'node.joined': { answers: 'serves' },
  'node.health_changed': { answers: 'serves' },
  'session.ended': { answers: 'nothing' },
  checkpoint: { answers: 'nothing' },
  no_op: { answers: 'nothing' },
  // Staging a change refuses nothing yet. The change watch checks its waves, and its own events follow its completion.
  'change.staged': { answers: 'nothing' },
  'change.advanced': { answers: 'serves' },
  'change.withdrawn': { answers: 'serves' },
  'change.completed': { answers: 'serves' },
};

export function listBounds(db: Database, { type, data }: KnownEvent, nowMs: number): readonly Bound[] {
  const counted: CountedEvent<KnownEvent['data']> = countedEvents[type];
  return counted.adds?.(db, data, nowMs) ?? [];
}

export function listRemovals(db: Database, { type, data }: KnownEvent): readonly Removal[] {
  const counted: CountedEvent<KnownEvent['data']> = countedEvents[type];
  return counted.removes?.(db, data) ?? [];
}

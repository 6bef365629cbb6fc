/**
 * The guard against emptying the fleet by mistake: a command that removes at least 10 resources and more than 10 % of their
 * kind needs force. Dependents count: an organisation is removed with its members, keys, stacks and nodes. Revoking one key
 * removes one resource, so it never needs force.
 */
import type { KnownEvent } from '../../schemas/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { SqlValue } from '../../shared/runtime/table-columns.ts';
import { CommandError } from '../core/command-error.ts';
import { all, count } from '../state/statements.ts';

const removedMin = 10;
const shareMax = 0.1;

const totals = {
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
type Kind = keyof typeof totals;
type Removed = Record<Kind, Set<string>>;

/** What goes with an organisation or a stack, one `id` a row; the statement's one parameter is its id. */
const withOrganisation: Partial<Record<Kind, string>> = {
  member: `SELECT organisation || '/' || person AS id FROM member WHERE organisation = ?`,
  key: 'SELECT id FROM api_key WHERE organisation = ?',
  stack: 'SELECT id FROM stack WHERE organisation = ?',
  node: `SELECT id FROM node WHERE place = 'organisation:' || ?`,
};
const withStack: Partial<Record<Kind, string>> = {
  install: `SELECT stack || '/' || model AS id FROM stack_model WHERE stack = ?`,
  node: `SELECT id FROM node WHERE place = 'stack:' || ?`,
};

function ids(db: Database, sql: string, ...values: SqlValue[]): string[] {
  return all<{ id: string }>(db, sql, ...values).map(({ id }) => id);
}

function removeWith(db: Database, removed: Removed, what: Partial<Record<Kind, string>>, id: string): void {
  for (const [kind, sql] of Object.entries(what)) {
    for (const each of ids(db, sql, id)) removed[kind as Kind].add(each);
  }
}

function removeStack(db: Database, removed: Removed, stack: string): void {
  removed.stack.add(stack);
  removeWith(db, removed, withStack, stack);
}

function removeOrganisation(db: Database, removed: Removed, organisation: string): void {
  removed.organisation.add(organisation);
  removeWith(db, removed, withOrganisation, organisation);
  for (const stack of ids(db, withOrganisation.stack ?? '', organisation)) removeStack(db, removed, stack);
}

function collect(db: Database, removed: Removed, { type, data }: KnownEvent): void {
  switch (type) {
    case 'organisation.removed':
      removeOrganisation(db, removed, data.id);
      break;
    case 'stack.removed':
      removeStack(db, removed, data.id);
      break;
    case 'node.removed':
      removed.node.add(data.id);
      break;
    case 'model.removed':
      removed.model.add(data.id);
      break;
    case 'tier.removed':
      removed.tier.add(data.id);
      break;
    case 'member.removed':
      removed.member.add(`${data.organisation}/${data.person}`);
      break;
    case 'key.revoked':
      removed.key.add(data.id);
      break;
    case 'pool.model_uninstalled':
      removed.install.add(`pool/${data.model}`);
      break;
    case 'stack.model_uninstalled':
      removed.install.add(`${data.stack}/${data.model}`);
      break;
    case 'node.token_revoked':
      removed.token.add(data.id);
      break;
    default:
      break;
  }
}

/** Throws CommandError GuardRefused where the events remove too much. */
export function guardRemovals(db: Database, events: readonly KnownEvent[]): void {
  const removed = Object.fromEntries(Object.keys(totals).map((kind) => [kind, new Set()])) as Removed;
  for (const event of events) collect(db, removed, event);
  for (const { type, data } of events) {
    // It moves before its old place is removed.
    if (type === 'node.registered') removed.node.delete(data.id);
  }
  for (const kind of Object.keys(totals) as Kind[]) {
    const size = removed[kind].size;
    if (size < removedMin) continue;
    const total = count(db, totals[kind]);
    if (size > total * shareMax)
      throw new CommandError('GuardRefused', `this would remove ${size} of ${total} (${kind})`, {
        next: 'check with a dry run what it would remove, then repeat it with force',
      });
  }
}

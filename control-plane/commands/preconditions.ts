/**
 * Preconditions that deciders check first: whether a resource exists, whether an id is free, or whether a resource is unused.
 */
import type {
  ApiKey,
  Model,
  NodeResource,
  NodeToken,
  Organisation,
  Stack,
  Tier,
} from '../../schemas/admin/admin.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError, type CommandErrorDetail } from '../core/command-error.ts';
import { findNode, findStack, findToken } from '../state/capacity.ts';
import { findModel, findTier } from '../state/catalog.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';

/** Returns the resource, or throws a `NotFound` error. `what` is its name in messages, `noun` its name in the CLI. */
function need<Found>(found: Found | undefined, what: string, noun: string, id: string): Found {
  if (found !== undefined) return found;
  throw new CommandError('NotFound', `there is no ${what} ${id}`, {
    next: `headgate ${noun} list shows what exists`,
  });
}

export function needOrganisation(db: Database, id: string): Organisation {
  return need(findOrganisation(db, id), 'organisation', 'org', id);
}
export function needTier(db: Database, id: string): Tier {
  return need(findTier(db, id), 'tier', 'tier', id);
}
export function needModel(db: Database, id: string): Model {
  return need(findModel(db, id), 'model', 'model', id);
}
export function needKey(db: Database, id: string, nowMs: number): ApiKey {
  return need(findKey(db, id, nowMs), 'key', 'key', id);
}
export function needStack(db: Database, id: string): Stack {
  return need(findStack(db, id), 'stack', 'stack', id);
}
export function needNode(db: Database, id: string): NodeResource {
  return need(findNode(db, id), 'node', 'node', id);
}
export function needToken(db: Database, id: string): NodeToken {
  return need(findToken(db, id), 'token', 'node', id);
}

/** Throws a `NotFound` error unless all selected models are in the catalog. The error lists all missing ones. */
export function needModels(db: Database, models: '*' | readonly string[]): void {
  if (models === '*') return;
  const details: CommandErrorDetail[] = [];
  for (const [index, id] of models.entries()) {
    if (!findModel(db, id)) details.push({ path: `models[${index}]`, message: `there is no model ${id}` });
  }
  const [first] = details;
  if (first)
    throw new CommandError('NotFound', first.message, {
      next: 'headgate model list shows what exists',
      details,
    });
}

/** Throws a `Conflict` error if the resource already exists. */
export function needFree(found: unknown, what: string, id: string): void {
  if (found !== undefined)
    throw new CommandError('Conflict', `the ${what} ${id} already exists`, { next: 'choose another id' });
}

/** Throws a `GuardRefused` error if the resource that is to be removed is still in use, unless forced. */
export function needUnused(
  what: string,
  users: readonly string[],
  force: boolean | undefined,
  next: string,
): void {
  if (users.length === 0 || force) return;
  const more = users.length > 10 ? ` and ${users.length - 10} more` : '';
  throw new CommandError('GuardRefused', `${what} is used by ${users.slice(0, 10).join(', ')}${more}`, {
    next: `${next}, or repeat the command with force`,
  });
}

/** Whether two JSON values are equal. The order of list items matters, the order of members does not. */
export function sameData(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const [was, is] = [a, b] as Record<string, unknown>[];
  const names = [...Object.keys(a), ...Object.keys(b)];
  return names.every((name) => sameData(was?.[name], is?.[name]));
}

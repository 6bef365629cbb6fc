/** Decides which gateways a change has reached, from the state and a gateway's name alone, so that all readers agree. */
import { createHash } from 'node:crypto';
import type { Wave } from '../../schemas/events/changes.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { RowOf, TableName } from './tables.ts';

/** Hashes the change and the gateway's name to a number of at least 0 and less than 1. */
function gatewayShare(change: string, gateway: string): number {
  const hash = createHash('sha256').update(`${change}\0${gateway}`).digest();
  return hash.readUIntBE(0, 6) / 2 ** 48;
}

/** Returns the first wave that includes the gateway, counted from 1, or undefined if none does. */
export function firstWave(change: string, waves: readonly Wave[], gateway: string): number | undefined {
  const place = gatewayShare(change, gateway);
  const at = waves.findIndex((wave) =>
    'gateways' in wave ? wave.gateways.includes(gateway) : place < wave.share,
  );
  return at === -1 ? undefined : at + 1;
}

/**
 * Selects which rows to read while a change is open: those of gateways that it has not reached (`base`), those of gateways
 * that it has reached (`wave`), or those of one gateway.
 */
export type StateView = 'base' | 'wave' | { readonly gateway: string };

/** The open change, with the number of waves released so far. */
export interface Release {
  readonly change: string;
  /** Number of waves that have begun. */
  readonly wave: number;
  readonly waves: number;
}

/** Returns the open change if it has reached the gateway. Without `gateway`, a change counts that has reached any gateway. */
function findRelease(db: Database, gateway: string | undefined): Release | undefined {
  const row = prepare<Pick<RowOf<'change'>, 'id' | 'wave' | 'waves'>, []>(
    db,
    'SELECT id, wave, waves FROM change',
  ).get();
  if (row === undefined) return undefined;
  const waves = parseColumn(row.waves);
  const first = gateway === undefined ? 1 : firstWave(row.id, waves, gateway);
  if (first === undefined || first > row.wave) return undefined;
  return { change: row.id, wave: row.wave, waves: waves.length };
}

/** Tier, model and stack that a decision was about. Each is undefined if unknown. */
export interface DecisionSubject {
  readonly tier: string | undefined;
  readonly model: string | undefined;
  readonly stack: string | undefined;
  /** Whether the refusal names the next higher tier. If so, the decision has read all tiers. */
  readonly namesTiers?: boolean | undefined;
}

/** An open change, with the set of rows that it replaces. */
export interface OpenOverlay extends Release {
  /** Whether the change replaces this row. `key` consists of the row's key columns joined by `/`. */
  has(table: TableName, key: string): boolean;
  /** Whether a decision about this subject read a row that the change replaces. */
  decided(on: DecisionSubject): boolean;
}

/** Returns the open change if a reader with this view sees its rows. */
export function overlayForView(db: Database, view: StateView): OpenOverlay | undefined {
  if (view === 'base') return undefined;
  return overlayForGateway(db, view === 'wave' ? undefined : view.gateway);
}

/** Returns the open change if it has reached the gateway or, without one, any gateway. Valid until the state changes. */
export function overlayForGateway(db: Database, gateway?: string): OpenOverlay | undefined {
  const release = findRelease(db, gateway);
  if (release === undefined) return undefined;
  const rows = prepare<Pick<RowOf<'overlay'>, 'tbl' | 'key'>, []>(db, 'SELECT tbl, key FROM overlay').all();
  const keys = new Set(rows.map(({ tbl, key }) => `${tbl} ${key}`));
  const hasTier = rows.some(({ tbl }) => tbl === 'tier');
  return {
    ...release,
    has: (table, key) => keys.has(`${table} ${key}`),
    decided: ({ tier, model, stack, namesTiers }) =>
      (namesTiers === true && hasTier) ||
      [
        `tier ${tier}`,
        `tier_model ${tier}/*`,
        `tier_model ${tier}/${model}`,
        `model ${model}`,
        `stack ${stack}`,
        stack === undefined ? `pool_model ${model}` : `stack_model ${stack}/${model}`,
      ].some((key) => keys.has(key)),
  };
}

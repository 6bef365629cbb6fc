/** Decides which gateways a change has reached, by the state and the gateway's name alone, so every reader agrees. */
import { createHash } from 'node:crypto';
import type { Wave } from '../../schemas/events/changes.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { RowOf, TableName } from './tables.ts';

/** Maps a gateway to a number from 0 up to (but excluding) 1, by a hash of the change and the name. */
function gatewayShare(change: string, gateway: string): number {
  const hash = createHash('sha256').update(`${change}\0${gateway}`).digest();
  return hash.readUIntBE(0, 6) / 2 ** 48;
}

/** Returns the first wave that includes the gateway, counted from 1; undefined if none does. */
export function firstWave(change: string, waves: readonly Wave[], gateway: string): number | undefined {
  const place = gatewayShare(change, gateway);
  const at = waves.findIndex((wave) =>
    'gateways' in wave ? wave.gateways.includes(gateway) : place < wave.share,
  );
  return at === -1 ? undefined : at + 1;
}

/**
 * Selects the rows of definitions to read while a change is open: those of gateways not yet reached, those of gateways
 * reached, or those of one gateway.
 */
export type StateView = 'base' | 'wave' | { readonly gateway: string };

/** The open change, and how far it has been released. */
export interface Release {
  readonly change: string;
  /** Number of waves that have begun. */
  readonly wave: number;
  readonly waves: number;
}

/** Returns the open change if it has reached the gateway. Without a gateway, returns it if it has reached any. */
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

/** Subjects of a decision, as far as they are known. */
export interface DecisionSubject {
  readonly tier: string | undefined;
  readonly model: string | undefined;
  readonly stack: string | undefined;
  /** Whether the answer names the next higher tier, which means that all tiers were read. */
  readonly namesTiers?: boolean | undefined;
}

/** An open change whose rows are read instead of the base rows. */
export interface OpenOverlay extends Release {
  /** Whether the row belongs to the overlay. `key` is the row's key columns joined by /. */
  has(table: TableName, key: string): boolean;
  /** Whether a decision read a row of the overlay. */
  decided(on: DecisionSubject): boolean;
}

/** Returns the change whose rows a reader with this view sees. */
export function overlayForView(db: Database, view: StateView): OpenOverlay | undefined {
  if (view === 'base') return undefined;
  return overlayForGateway(db, view === 'wave' ? undefined : view.gateway);
}

/** Reads the overlay's keys; valid until the state changes. Without a gateway, it is the overlay of all gateways reached. */
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

/** Which gateways a change has reached: a function of the state and a gateway's name, the same for every reader. */
import { createHash } from 'node:crypto';
import type { Wave } from '../../schemas/events/changes.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { RowOf, TableName } from './tables.ts';

/** Where the gateway stands among all, from 0 up to, not including, 1. */
function placeOf(change: string, gateway: string): number {
  const hash = createHash('sha256').update(`${change}\0${gateway}`).digest();
  return hash.readUIntBE(0, 6) / 2 ** 48;
}

/** The first wave that has the gateway, from 1 on; undefined where none has. */
export function waveOf(change: string, waves: readonly Wave[], gateway: string): number | undefined {
  const place = placeOf(change, gateway);
  const at = waves.findIndex((wave) =>
    'gateways' in wave ? wave.gateways.includes(gateway) : place < wave.share,
  );
  return at === -1 ? undefined : at + 1;
}

/**
 * Whose rows of definitions are read where a change is open: those of gateways that it has not reached, of those that it has, or
 * those of one gateway.
 */
export type StateView = 'base' | 'wave' | { readonly gateway: string };

/** The open change of a state, and how far it is. */
export interface Release {
  readonly change: string;
  /** Gateways of so many waves are in it. */
  readonly wave: number;
  readonly waves: number;
}

/** The open change, where it has reached the gateway; without one, wherever it has. */
function releaseAt(db: Database, gateway: string | undefined): Release | undefined {
  const row = prepare<Pick<RowOf<'change'>, 'id' | 'wave' | 'waves'>, []>(
    db,
    'SELECT id, wave, waves FROM change',
  ).get();
  if (row === undefined) return undefined;
  const waves = parseColumn(row.waves);
  const first = gateway === undefined ? 1 : waveOf(row.id, waves, gateway);
  if (first === undefined || first > row.wave) return undefined;
  return { change: row.id, wave: row.wave, waves: waves.length };
}

/** What a decision was about, as far as it is known. */
export interface DecidedOn {
  readonly tier: string | undefined;
  readonly model: string | undefined;
  readonly stack: string | undefined;
  /** It names the next tier above, so it read all of them. */
  readonly namesTiers?: boolean | undefined;
}

/** A change whose rows are read in place of those of the base. */
export interface Overlaid extends Release {
  /** Whether the row is one of them; `key` has / between its columns. */
  has(table: TableName, key: string): boolean;
  /** Whether a decision read such a row. */
  decided(on: DecidedOn): boolean;
}

/** The change whose rows such a reader of the state reads. */
export function overlaidIn(db: Database, view: StateView): Overlaid | undefined {
  if (view === 'base') return undefined;
  return overlaidAt(db, view === 'wave' ? undefined : view.gateway);
}

/** Reads the rows once, for as long as the state is as it is. Without a gateway: of any that the change has reached. */
export function overlaidAt(db: Database, gateway?: string): Overlaid | undefined {
  const release = releaseAt(db, gateway);
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

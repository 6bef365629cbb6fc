/** Which gateways a change has reached: a function of the state and a gateway's name, the same for every reader. */
import { createHash } from 'node:crypto';
import type { Wave } from '../../schemas/changes.ts';
import { type Database, prepare } from '../runtime/sqlite.ts';
import { parseColumn } from '../runtime/table-columns.ts';
import type { RowOf } from './tables.ts';

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

/** The open change of a state, and how far it is. */
export interface Release {
  readonly change: string;
  /** Gateways of so many waves are in it. */
  readonly wave: number;
  readonly waves: number;
}

/** The open change, where it has reached the gateway. */
function releaseAt(db: Database, gateway: string): Release | undefined {
  const row = prepare<Pick<RowOf<'change'>, 'id' | 'wave' | 'waves'>, []>(
    db,
    'SELECT id, wave, waves FROM change',
  ).get();
  if (row === undefined) return undefined;
  const waves = parseColumn(row.waves);
  const first = waveOf(row.id, waves, gateway);
  if (first === undefined || first > row.wave) return undefined;
  return { change: row.id, wave: row.wave, waves: waves.length };
}

/** What a decision was about, as far as it is known. */
export interface DecidedOn {
  readonly tier: string | undefined;
  readonly model: string | undefined;
  readonly stack: string | undefined;
}

/** A change whose rows a gateway reads in place of its own. */
export interface Overlaid extends Release {
  /** Whether a decision read such a row. */
  decided(on: DecidedOn): boolean;
}

/** Reads the rows once, for as long as the state is as it is. */
export function overlaidAt(db: Database, gateway: string): Overlaid | undefined {
  const release = releaseAt(db, gateway);
  if (release === undefined) return undefined;
  const rows = prepare<Pick<RowOf<'overlay'>, 'tbl' | 'key'>, []>(db, 'SELECT tbl, key FROM overlay').all();
  const keys = new Set(rows.map(({ tbl, key }) => `${tbl} ${key}`));
  return {
    ...release,
    decided: ({ tier, model, stack }) =>
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

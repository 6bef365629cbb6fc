/** Determines which models a node should have loaded: those installed at its place, under the names that its engine uses. */
import { modelsPerNodeMax } from '../../schemas/records/node-messages.ts';
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';

type PlacedNode = Pick<RowOf<'node'>, 'place' | 'models'>;
type InstalledModel = Pick<RowOf<'pool_model'>, 'model'>;

export class Installs {
  readonly #pool: Statement<[number], InstalledModel>;
  readonly #stack: Statement<[string, number], InstalledModel>;

  constructor(db: Database) {
    this.#pool = db.prepare<[number], InstalledModel>('SELECT model FROM pool_model ORDER BY model LIMIT ?');
    this.#stack = db.prepare<[string, number], InstalledModel>(
      'SELECT model FROM stack_model WHERE stack = ? ORDER BY model LIMIT ?',
    );
  }

  /** Returns the models to load, or undefined for an organisation's own node, because nothing is installed there. */
  of({ place, models }: PlacedNode): readonly string[] | undefined {
    const rows = this.#rows(place);
    if (rows === undefined) return undefined;
    const names = models === null ? {} : parseColumn(models);
    return rows.map(({ model }) => (Object.hasOwn(names, model) ? (names[model] ?? model) : model));
  }

  #rows(place: PlacedNode['place']): InstalledModel[] | undefined {
    if (place === 'pool') return this.#pool.all(modelsPerNodeMax);
    if (!place.startsWith('stack:')) return undefined;
    return this.#stack.all(place.slice('stack:'.length), modelsPerNodeMax);
  }
}

/** Which models should a node have loaded? Those its place has installed, by the names its engine knows them by. */
import { modelsPerNodeMax } from '../../schemas/node-messages.ts';
import type { Database, Statement } from '../../shared/runtime/sqlite.ts';

export interface PlacedNode {
  /** `pool`, `stack:<id>` or `organisation:<id>`. */
  readonly place: unknown;
  /** JSON: catalog id → the engine's name, where the two differ. */
  readonly models: unknown;
}

export class Installs {
  readonly #pool: Statement;
  readonly #stack: Statement;

  constructor(db: Database) {
    this.#pool = db.prepare('SELECT model FROM pool_model ORDER BY model LIMIT ?');
    this.#stack = db.prepare('SELECT model FROM stack_model WHERE stack = ? ORDER BY model LIMIT ?');
  }

  /** undefined at an organisation, where nothing is installed: its nodes serve what they have. */
  of({ place, models }: PlacedNode): readonly string[] | undefined {
    const rows = this.#rows(String(place));
    if (rows === undefined) return undefined;
    const names = models === null ? {} : (JSON.parse(String(models)) as Record<string, string>);
    return rows.map(({ model }) => (Object.hasOwn(names, model) ? (names[model] ?? model) : model));
  }

  #rows(place: string): { model: string }[] | undefined {
    if (place === 'pool') return this.#pool.all(modelsPerNodeMax) as { model: string }[];
    if (!place.startsWith('stack:')) return undefined;
    return this.#stack.all(place.slice('stack:'.length), modelsPerNodeMax) as { model: string }[];
  }
}

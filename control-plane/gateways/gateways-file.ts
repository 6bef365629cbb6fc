/** Stores known gateways and tombstones in `gateways.db`, which may be the only record of a silent gateway. */
import { existsSync } from 'node:fs';
import { rememberedStatusSchema, type StatusReport } from '../../schemas/records/status.ts';
import {
  type Database,
  DatabaseCorrupt,
  mapSqliteError,
  openDatabase,
  refuseForeignSchema,
} from '../../shared/runtime/sqlite.ts';
import { quarantineFile } from '../../shared/snapshot/open-snapshot.ts';
import { gatewaysSql } from './gateways-tables.ts';

const tombstonesMax = 20_000;

/** The last report of a gateway, or its tombstone. `endedAt` is the number of the gateway's last report. */
export type PersistedGateway = StatusReport | { readonly incarnation: string; readonly endedAt: number };

export class GatewaysFile {
  readonly #db: Database;
  readonly #path: string;

  /**
   * Opens the file. If corrupt, calls `onDamage`, quarantines it and creates a new one. Throws the errors from
   * `shared/runtime/sqlite.ts`.
   */
  constructor(path: string, onDamage: (error: Error) => void) {
    this.#path = path;
    try {
      this.#db = open(path);
    } catch (error) {
      if (!(error instanceof DatabaseCorrupt) || !existsSync(path)) throw error;
      onDamage(error);
      quarantineFile(path);
      this.#db = open(path);
    }
  }

  /** Reads all gateways and tombstones. Skips reports that do not match the schema, because another build wrote them. */
  read(): {
    readonly ended: readonly { incarnation: string; n: number }[];
    readonly reports: StatusReport[];
  } {
    const ended = this.#db
      .prepare<[], { incarnation: string; n: number }>('SELECT incarnation, n FROM ended ORDER BY at')
      .all();
    const rows = this.#db.prepare<[], { report: string }>('SELECT report FROM gateway').all();
    const reports = rows.flatMap(({ report }) => {
      const parsed = rememberedStatusSchema.safeParse(JSON.parse(report));
      return parsed.success ? [parsed.data] : [];
    });
    return { ended, reports };
  }

  /** Writes all changed gateways and tombstones in one transaction. Throws the errors from `shared/runtime/sqlite.ts`. */
  write(changes: readonly PersistedGateway[]): void {
    const put = this.#db.prepare('INSERT OR REPLACE INTO gateway (incarnation, report) VALUES (?, ?)');
    const remove = this.#db.prepare('DELETE FROM gateway WHERE incarnation = ?');
    const end = this.#db.prepare('INSERT OR REPLACE INTO ended (incarnation, n) VALUES (?, ?)');
    const trim = this.#db.prepare('DELETE FROM ended WHERE at <= (SELECT max(at) FROM ended) - ?');
    const write = (): void => {
      for (const change of changes) {
        if ('endedAt' in change) {
          remove.run(change.incarnation);
          end.run(change.incarnation, change.endedAt);
        } else put.run(change.incarnation, JSON.stringify(change));
      }
      trim.run(tombstonesMax);
    };
    try {
      this.#db.transaction(write).immediate();
    } catch (error) {
      throw mapSqliteError(error, this.#path);
    }
  }

  close(): void {
    this.#db.close();
  }
}

function open(path: string): Database {
  const db = openDatabase(path, { durability: 'full' });
  try {
    db.exec(gatewaysSql);
    refuseForeignSchema(db, path, gatewaysSql);
    return db;
  } catch (error) {
    db.close();
    throw mapSqliteError(error, path);
  }
}

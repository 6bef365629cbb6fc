/**
 * Plans a restore: composes every record of the new log and folds it in memory, so that a state that cannot be
 * restored exactly is refused before anything is written.
 */
import { randomUUID } from 'node:crypto';
import { genesisPrev } from '../../schemas/commit.ts';
import { toStored } from '../../schemas/events.ts';
import { restoreAuthor } from '../../schemas/shapes.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { ephemeralTables, type RestoredCommit, restoreCommits } from '../../shared/snapshot/restore.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { tableNames } from '../../shared/snapshot/tables.ts';
import { CliError } from '../terminal/errors.ts';

export interface RestoreRecord {
  readonly value: Buffer;
  readonly signature: Buffer | null;
}

export interface RestorePlan {
  /** Id of the new log. */
  readonly log: string;
  /** Public keys whose signatures count on it; empty where it is not signed. */
  readonly signers: readonly string[];
  readonly records: readonly RestoreRecord[];
  /** Of the state that the records fold to. */
  readonly digests: Readonly<Record<string, string>>;
}

const author = restoreAuthor;

/**
 * If a key is given, the new log is signed by it, and accepts it and `others` as signers. The signers of the old log
 * are not kept. Throws a CliError if the snapshot is empty, or if events cannot restore its state.
 */
export function planRestore(
  snapshot: Snapshot,
  signer: Signer | undefined,
  others: readonly string[] = [],
): RestorePlan {
  const { log: old, seq, hash } = snapshot.head;
  const signers = signer ? [...new Set([signer.publicKey, ...others])] : [];
  if (old === null || seq === 0) throw new CliError('this file contains no state', { type: 'InvalidFile' });
  const at = new Date(wallClockMs()).toISOString();
  const commits = [...restoreCommits(snapshot.db, { nowMs: Date.parse(at), by: author })];
  // Count the final checkpoint: a reader that has folded it has compared its state.
  const continues = { log: old, seq, hash, commits: commits.length + 1 };
  const log = `log-${randomUUID()}`;
  const composer = new Composer(log, signer);
  const own = (event: Parameters<typeof toStored>[0]) => ({ at, by: author, events: [toStored(event)] });
  try {
    composer.add(
      own({
        type: 'log.created',
        data: { log, continues, ...(signers.length > 0 && { signers }) },
      }),
    );
    for (const commit of commits) composer.add(commit);
    const digests = composer.folded.digests();
    composer.add(own({ type: 'checkpoint', data: { foldVersion, digests } }));
    const wanted = snapshot.digests();
    const differing = tableNames.filter(
      (table) => !ephemeralTables.has(table) && wanted[table] !== digests[table],
    );
    if (differing.length > 0) throw differsIn(differing);
    return { log, signers, records: composer.records, digests };
  } finally {
    composer.folded.close();
  }
}

/** Composes records and folds them as readers do. */
class Composer {
  readonly folded = memorySnapshot();
  readonly records: RestoreRecord[] = [];
  readonly #log: string;
  readonly #signer: Signer | undefined;

  constructor(log: string, signer: Signer | undefined) {
    this.#log = log;
    this.#signer = signer;
  }

  add(commit: RestoredCommit): void {
    const number = this.records.length + 1;
    const head = number === 1 ? { log: this.#log, seq: 0, hash: genesisPrev, signers: [] } : this.folded.head;
    const value = composeCommit({ head, id: `${author}-${this.#log}-${number}`, ...commit });
    const record = { value, signature: this.#signer?.sign(value) ?? null };
    const { accepted } = this.folded.apply([{ offset: number, ...record }]);
    if (accepted.length !== 1)
      throw new Error(`commit ${number} of the restore does not extend its own chain`);
    this.records.push(record);
  }
}

function differsIn(tables: readonly string[]): CliError {
  return new CliError(`the state cannot be restored exactly: ${tables.join(', ')}`, {
    type: 'InvalidFile',
    exitCode: 1,
    why: 'the rows would differ from those of the snapshot; nothing was written',
    next: 'check the file with headgate snapshot inspect FILE, and use another snapshot',
  });
}

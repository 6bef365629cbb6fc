/** Opens a snapshot file read-only, even while a process is using it, and recomputes its digests from its rows. */
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { CliError } from '../terminal/errors.ts';

export interface StateFile {
  readonly log: string | null;
  readonly position: number;
  readonly foldVersion: number;
  /** Combined digest of all tables, which processes also report. */
  readonly digest: string;
  readonly digests: Readonly<Record<string, string>>;
  readonly rows: number;
  /** Whether the rows match their digests, and the digests match the log's checkpoint if there is one. */
  readonly verified: boolean;
  /** Tables whose rows do not match their digests. */
  readonly differing: readonly string[];
  /** Position of a checkpoint whose digests differ from the file's. */
  readonly divergedAt?: number;
}

/** Inspects the file. Throws a `CliError` with exit code 2 if it is missing, damaged or from another fold version. */
export function inspectState(path: string): StateFile {
  try {
    const snapshot = openExisting(path, { readOnly: true });
    try {
      // Read everything in one transaction, because a process may be writing to the file.
      snapshot.db.exec('BEGIN');
      const { differing, rows } = verify(snapshot.db);
      const { log, seq, divergedAt } = snapshot;
      return {
        log,
        position: seq,
        foldVersion,
        digest: snapshot.digest(),
        digests: snapshot.digests(),
        rows,
        verified: differing.length === 0 && divergedAt === null,
        differing,
        ...(divergedAt !== null && { divergedAt }),
      };
    } finally {
      // Do not call `snapshot.close()`. It would mark the file as cleanly closed, but the file belongs to another process.
      snapshot.db.close();
    }
  } catch (error) {
    throw new CliError(`${path} is not a readable state file`, {
      type: 'InvalidFile',
      why: error instanceof Error ? error.message : String(error),
      next: 'use the data folder of a gateway; a process rebuilds its damaged state.db when it starts',
      cause: error,
    });
  }
}

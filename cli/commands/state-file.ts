/** Opens a state file read-only, even while its process runs, and recomputes its digests from its rows. */
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { CliError } from '../terminal/errors.ts';

export interface StateFile {
  readonly log: string | null;
  readonly position: number;
  readonly foldVersion: number;
  /** Combined digest of all tables, as reported by processes. */
  readonly digest: string;
  readonly digests: Readonly<Record<string, string>>;
  readonly rows: number;
  /** Whether the rows match the digests and no checkpoint of the log differed. */
  readonly verified: boolean;
  /** Tables whose rows do not match. */
  readonly differing: readonly string[];
  /** Position of a checkpoint that differed. */
  readonly divergedAt?: number;
}

/** Inspects the file. Throws a CliError with exit code 2 if it is missing, damaged, or of another fold version. */
export function inspectState(path: string): StateFile {
  try {
    const snapshot = openExisting(path, { readOnly: true });
    try {
      // Read everything in one transaction, because a process may still be writing to the file.
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
      // Do not call snapshot.close(): it would mark the file as cleanly closed, although it belongs to another process.
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

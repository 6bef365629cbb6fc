/** Converts errors from following the log to command errors. If the fold has stopped, `next` says to restart the replica. */
import { LogReplaced, LogTruncated, LogUnavailable } from '../../shared/log/core/control-log.ts';
import {
  DatabaseBusy,
  DatabaseCorrupt,
  DatabaseUnwritable,
  mapSqliteError,
} from '../../shared/runtime/sqlite.ts';
import { FoldHalted } from '../../shared/snapshot/replicator.ts';
import { CommandError } from './command-error.ts';

/** Returns the command error, or undefined if `thrown` does not come from the log, the fold or the state file. */
export function asFollowError(thrown: unknown): CommandError | undefined {
  const error = mapSqliteError(thrown, 'state.db');
  if (error instanceof LogTruncated || error instanceof LogReplaced)
    return unavailable(
      error,
      error.message,
      'stop all control planes and restore the log: docs/recover.md, "The log is unreachable, lost or truncated"',
    );
  if (error instanceof FoldHalted)
    return unavailable(error, error.message, 'upgrade this control plane, then start it again');
  if (
    error instanceof DatabaseUnwritable ||
    error instanceof DatabaseBusy ||
    error instanceof DatabaseCorrupt
  )
    return unavailable(error, error.message, 'correct that, then start this control plane again');
  if (error instanceof LogUnavailable)
    return unavailable(
      error,
      `the control log cannot be reached: ${error.message}`,
      'nothing was changed; try again when the log is back',
    );
  return undefined;
}

function unavailable(cause: Error, message: string, next: string): CommandError {
  return new CommandError('LogUnavailable', message, { next, cause });
}

/** Reads the control log itself, from its first record to the end that it has now. */
import { existsSync } from 'node:fs';
import { controlTopic } from '../../schemas/events/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';

const batchRecords = 500;

/** HEADGATE_LOG, or the log of the context file. */
export function logUrlOf(session: Session): string | undefined {
  return session.io.env['HEADGATE_LOG'] || readContext(session.io).log;
}

/** `given` or else that. Throws a CliError where there is none. */
export function requireLogUrl(session: Session, given?: string): string {
  const url = given ?? logUrlOf(session);
  if (url) return url;
  throw usageError('no log address is configured', 'set HEADGATE_LOG, for example sqlite:./data/log');
}

/** For its caller to close. */
export async function openRecordedLog(session: Session): Promise<ControlLog> {
  const url = requireLogUrl(session);
  const { openLog, parseLogUrl } = await import('../../shared/log/open-log.ts');
  const { embeddedLogPath } = await import('../../shared/log/embedded/embedded-log.ts');
  const parsed = parseLogUrl(url);
  // Opening would create a missing log; a replay must not write.
  if (parsed.kind === 'sqlite' && !existsSync(embeddedLogPath(parsed.folder, { topic: controlTopic })))
    throw new CliError('no control log exists at this address', {
      type: 'Unreachable',
      next: 'check HEADGATE_LOG',
    });
  return openLog(url, { topic: controlTopic });
}

/** All records that the log has now. */
export function recordsOfLog(log: ControlLog): AsyncIterable<readonly LogRecord[]> {
  return batchesToEnd(log, { recordsMax: batchRecords });
}

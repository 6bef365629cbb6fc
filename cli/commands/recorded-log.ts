/** Reads the control log directly, from its first record to its present end. */
import { existsSync } from 'node:fs';
import { controlTopic } from '../../schemas/events/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { ControlLog, LogRecord } from '../../shared/log/core/control-log.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';

const batchRecords = 500;

/** Returns the address of the log from HEADGATE_LOG or, if that is unset, from the context file. */
export function configuredLogUrl(session: Session): string | undefined {
  return session.io.env['HEADGATE_LOG'] || readContext(session.io).log;
}

/** Returns the given address, or else the configured one. Throws a `CliError` if neither is set. */
export function requireLogUrl(session: Session, given?: string): string {
  const url = given ?? configuredLogUrl(session);
  if (url) return url;
  throw usageError('no log address is configured', 'set HEADGATE_LOG, for example sqlite:./data/log');
}

/** Opens the control log. The caller must close it. */
export async function openRecordedLog(session: Session): Promise<ControlLog> {
  const url = requireLogUrl(session);
  const { openLog, parseLogUrl } = await import('../../shared/log/open-log.ts');
  const { embeddedLogPath } = await import('../../shared/log/embedded/embedded-log.ts');
  const parsed = parseLogUrl(url);
  // Refuse a missing log, because opening it would create it and a replay must not write.
  if (parsed.kind === 'sqlite' && !existsSync(embeddedLogPath(parsed.folder, { topic: controlTopic })))
    throw new CliError('no control log exists at this address', {
      type: 'Unreachable',
      next: 'check HEADGATE_LOG',
    });
  return openLog(url, { topic: controlTopic });
}

export function readAllRecords(log: ControlLog): AsyncIterable<readonly LogRecord[]> {
  return batchesToEnd(log, { recordsMax: batchRecords });
}

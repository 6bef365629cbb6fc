/** Reads the control log itself, from its beginning to the end that it has now. */
import { existsSync } from 'node:fs';
import { controlTopic } from '../../schemas/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';

const batchRecords = 500;

/** HEADGATE_LOG, or the log of the context file. */
export function logUrlOf(session: Session): string | undefined {
  return session.io.env['HEADGATE_LOG'] || readContext(session.io).log;
}

export async function* recordsOfLog(session: Session): AsyncIterable<readonly LogRecord[]> {
  const url = logUrlOf(session);
  if (!url)
    throw usageError('no log address is configured', 'set HEADGATE_LOG, for example sqlite:./data/log');
  const { openLog, parseLogUrl } = await import('../../shared/log/open-log.ts');
  const { embeddedLogPath } = await import('../../shared/log/embedded/embedded-log.ts');
  const parsed = parseLogUrl(url);
  // Opening would create a missing log; a replay must not write.
  if (parsed.kind === 'sqlite' && !existsSync(embeddedLogPath(parsed.folder, { topic: controlTopic })))
    throw new CliError('no control log exists at this address', {
      type: 'Unreachable',
      exitCode: 7,
      next: 'check HEADGATE_LOG',
    });
  const log = await openLog(url, { topic: controlTopic });
  try {
    yield* batchesToEnd(log, { recordsMax: batchRecords });
  } finally {
    await log.close();
  }
}

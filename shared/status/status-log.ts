/** Opens the status topic. Records are kept for one day, as only the latest reports matter. A replaced topic is reopened. */
import { daySeconds } from '../../schemas/durations.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../log/open-log.ts';
import { ReopenedLog } from '../log/reopened-log.ts';

/** Opens the status topic. Rejects if the log cannot be opened. */
export async function openStatusLog(logUrl: string): Promise<ReopenedLog> {
  // Do not wait for flushes to disk, because if a crash of the machine loses a report, the next report replaces it.
  const options = { keepSeconds: daySeconds, allowTrimmed: true, durability: 'normal' } as const;
  const log = new ReopenedLog((mustExist) =>
    openLog(logUrl, { topic: statusTopic }, { ...options, mustExist }),
  );
  await log.opened();
  return log;
}

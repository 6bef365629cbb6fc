/** The status topic. It is kept for one day, because only the latest reports matter; if replaced, it is opened again. */
import { daySeconds } from '../../schemas/durations.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../log/open-log.ts';
import { ReopenedLog } from '../log/reopened-log.ts';

/** Opens the status topic. Throws the errors of opening a log. */
export async function openStatusLog(logUrl: string): Promise<ReopenedLog> {
  // If the machine loses a report, the next start's report replaces it. So no gateway waits for a flush.
  const options = { keepSeconds: daySeconds, allowTrimmed: true, durability: 'normal' } as const;
  const log = new ReopenedLog((mustExist) =>
    openLog(logUrl, { topic: statusTopic }, { ...options, mustExist }),
  );
  await log.opened();
  return log;
}

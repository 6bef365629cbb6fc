/**
 * The status topic: one day is kept, because only the latest reports count. For the same reason a topic that was replaced
 * under its name is opened again, and the calls that noticed it reject with LogUnavailable.
 */
import { daySeconds } from '../../schemas/durations.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { openLog } from '../log/open-log.ts';
import { ReopenedLog } from '../log/reopened-log.ts';

/** Throws what opening a log throws. */
export async function openStatusLog(logUrl: string): Promise<ReopenedLog> {
  // A report lost with the machine is replaced by the next start's report, so no gateway waits for a flush.
  const options = { keepSeconds: daySeconds, allowTrimmed: true, durability: 'normal' } as const;
  const log = new ReopenedLog((mustExist) =>
    openLog(logUrl, { topic: statusTopic }, { ...options, mustExist }),
  );
  await log.opened();
  return log;
}

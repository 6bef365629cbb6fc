/** The status topic: one day is kept, because only the present counts. */
import type { ControlLog } from '../log/control-log.ts';
import { openLog } from '../log/open-log.ts';

const keepSeconds = 24 * 3600;

/** Throws what opening a log throws. */
export function openStatusLog(logUrl: string): Promise<ControlLog> {
  // A report lost with the machine is retold by the process that starts next; no flush holds up a gateway.
  return openLog(
    logUrl,
    { topic: 'headgate.status' },
    { keepSeconds, allowTrimmed: true, durability: 'normal' },
  );
}

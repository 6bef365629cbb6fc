/** Address of the usage log, in a separate file because a gateway never loads the code that folds the log. */
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../schemas/records/usage.ts';
import type { TimedLog } from '../log/core/control-log.ts';
import { openLog, parseLogUrl } from '../log/open-log.ts';

export interface UsageLogAddress {
  readonly partitions: number;
  /** Opens one partition at its first remaining record. With `mustExist`, a log that was moved away is not created again. */
  readonly open: (partition: number, mustExist?: boolean) => Promise<TimedLog>;
}

/** Returns the address of the usage log that belongs to a control log. Throws `LogUrlInvalid`. */
export function usageLogAddress(logUrl: string): UsageLogAddress {
  const partitions = parseLogUrl(logUrl).kind === 'kafka' ? usagePartitions : 1;
  const options = { keepSeconds: usageKeepSeconds, allowTrimmed: true };
  return {
    partitions,
    open: (partition, mustExist = false) =>
      openLog(logUrl, { topic: usageTopic, partition }, { ...options, mustExist }),
  };
}

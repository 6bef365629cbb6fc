/** Address of the usage log. Separate from the log's fold, which a gateway never loads. */
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../schemas/records/usage.ts';
import type { TimedLog } from '../log/core/control-log.ts';
import { openLog, parseLogUrl } from '../log/open-log.ts';

export interface UsageLogAddress {
  readonly partitions: number;
  /** Opens one partition from its first record kept. With `mustExist`, a log that was moved away is not created again. */
  readonly open: (partition: number, mustExist?: boolean) => Promise<TimedLog>;
}

/** Returns the usage log at the control log's address. Throws LogUrlInvalid. */
export function usageLogAddress(logUrl: string): UsageLogAddress {
  const partitions = parseLogUrl(logUrl).kind === 'kafka' ? usagePartitions : 1;
  const options = { keepSeconds: usageKeepSeconds, allowTrimmed: true };
  return {
    partitions,
    open: (partition, mustExist = false) =>
      openLog(logUrl, { topic: usageTopic, partition }, { ...options, mustExist }),
  };
}

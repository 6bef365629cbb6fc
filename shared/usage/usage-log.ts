/** Where the usage log is. Apart from its fold, which a gateway never loads. */
import { usageKeepSeconds, usagePartitions, usageTopic } from '../../schemas/usage.ts';
import type { ControlLog } from '../log/core/control-log.ts';
import { openLog, parseLogUrl } from '../log/open-log.ts';

export interface UsageLogAddress {
  readonly partitions: number;
  readonly open: (partition: number) => Promise<ControlLog>;
}

/** The usage log at the address of the control log. Throws LogUrlInvalid. */
export function usageLogAt(logUrl: string): UsageLogAddress {
  const partitions = parseLogUrl(logUrl).kind === 'kafka' ? usagePartitions : 1;
  const options = { keepSeconds: usageKeepSeconds, allowTrimmed: true };
  return { partitions, open: (partition) => openLog(logUrl, { topic: usageTopic, partition }, options) };
}

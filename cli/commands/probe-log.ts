/** Checks, before a process opens a log, that the log can be used from this machine. Never creates a folder or a topic. */
import { controlTopic } from '../../schemas/events/commit.ts';
import type { LogInspection } from '../../shared/log/core/control-log.ts';
import { parseLogUrl } from '../../shared/log/open-log.ts';
import { canBeWritten } from '../../shared/runtime/data-folder.ts';
import { environment } from '../../shared/runtime/settings.ts';

export interface LogProbe {
  readonly reachable: boolean;
  /** Reason why the log cannot be reached. Never contains the log's address, which may include a password. */
  readonly reason?: string;
  /** The brokers' report about themselves and the topics, if the log is on Kafka. */
  readonly brokers?: LogInspection;
}

export async function probeLog(url: string): Promise<LogProbe> {
  try {
    const parsed = parseLogUrl(url);
    if (parsed.kind === 'kafka') return { reachable: true, brokers: await inspectKafka(parsed.brokers) };
    if (canBeWritten(parsed.folder)) return { reachable: true };
    return { reachable: false, reason: 'its folder cannot be written or created' };
  } catch (error) {
    return { reachable: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

async function inspectKafka(brokers: readonly string[]): Promise<LogInspection> {
  const { KafkaFiles } = await import('../../shared/log/kafka/files.ts');
  const { KafkaLog, openCluster } = await import('../../shared/log/kafka/kafka-log.ts');
  const files = new KafkaFiles(environment);
  const log = new KafkaLog(openCluster(brokers, files.current(), files), {
    topic: controlTopic,
    partition: 0,
  });
  try {
    return await log.inspect();
  } finally {
    await log.close();
  }
}

/** Writes metrics and log lines about the topics that a process reads: whether they can be read, and skipped batches. */
import type { Registry } from 'prom-client';
import type { LineLogger } from '../runtime/logger.ts';
import { ObservedMetrics } from '../runtime/observed-metrics.ts';
import type { ControlLog, TopicReading } from './core/control-log.ts';

const intervalMs = 1000;

interface ObservedLog {
  readonly log: Pick<ControlLog, 'readings' | 'settingsFault'>;
  readonly registry: Registry;
  readonly logger: Pick<LineLogger, 'warn' | 'error'>;
}

/** Observes all topics at the address of `log` until the returned function is called. */
export function observeTopics({ log, registry, logger }: ObservedLog): () => void {
  const readings = (): readonly TopicReading[] => log.readings?.() ?? [];
  const metrics = new ObservedMetrics(registry);
  const gauge = (name: string, help: string, value: (reading: TopicReading) => number): void =>
    metrics.gauges(name, help, 'topic', () =>
      readings().map((reading) => [reading.topic, value(reading)] as const),
    );
  gauge('headgate_topic_readable', '1 while the topic can be read', ({ failing }) =>
    Number(failing === undefined),
  );
  gauge(
    'headgate_topic_skipped_batches',
    'batches of records skipped since the start, because they are compressed, too large or damaged',
    ({ skipped }) => skipped,
  );
  const before = new Map<string, TopicReading>();
  let fault: string | undefined;
  const look = () => {
    if (log.settingsFault !== undefined && log.settingsFault !== fault)
      logger.error(
        { reason: log.settingsFault },
        'the new TLS files or password for Kafka cannot be used; the previous ones stay in use',
      );
    fault = log.settingsFault;
    for (const reading of readings()) {
      const { topic, failing, skipped, lastSkipped } = reading;
      const last = before.get(topic);
      before.set(topic, reading);
      if ((failing === undefined) !== (last?.failing === undefined))
        logger.warn({ topic, reachable: failing === undefined, ...failing }, 'reachability of a topic');
      if (skipped !== (last?.skipped ?? 0))
        logger.warn(
          { topic, skipped, ...lastSkipped },
          'batches of records were skipped: they are compressed, too large or broken',
        );
    }
  };
  const timer = setInterval(look, intervalMs).unref();
  return () => clearInterval(timer);
}

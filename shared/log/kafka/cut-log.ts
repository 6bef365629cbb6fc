/** Cuts a log on Kafka behind commits that were archived. Its brokers remove all records before an offset in one step. */
import { rmSync } from 'node:fs';
import { beginningTopic, controlTopic } from '../../../schemas/commit.ts';
import type { LogCutter, NewBeginning } from '../core/beginning.ts';
import { BeginningTopic } from './beginning-topic.ts';
import type { KafkaCluster } from './cluster.ts';
import { KafkaLog } from './kafka-log.ts';

export class KafkaLogCutter implements LogCutter {
  readonly #stem: string;
  readonly #log: KafkaLog;
  readonly #topic: BeginningTopic;

  /** States are made next to this path. */
  constructor(cluster: KafkaCluster, stem: string) {
    this.#stem = stem;
    this.#log = new KafkaLog(cluster, { topic: controlTopic, partition: 0, mustExist: true });
    this.#topic = new BeginningTopic(
      (partition) => new KafkaLog(cluster, { topic: beginningTopic, partition }),
    );
  }

  partPath({ seq, foldVersion }: Pick<NewBeginning, 'seq' | 'foldVersion'>): string {
    return `${this.#stem}.beginning-${seq}-${foldVersion}.db.part`;
  }

  async setBeginning(facts: NewBeginning): Promise<void> {
    const part = this.partPath(facts);
    await this.#topic.add(facts, part);
    rmSync(part);
  }

  async *removeArchived(): AsyncGenerator<number> {
    const { start } = await this.#log.range();
    const kept = await this.#topic.last(start);
    if (kept === undefined) return;
    if (kept.facts.offset > start) {
      await this.#log.removeBefore(kept.facts.offset);
      yield kept.facts.offset - start;
    }
    await this.#topic.removeBefore(kept);
  }

  /** Brokers remove what nobody can read any more by themselves. */
  async compact(): Promise<boolean> {
    return true;
  }

  async close(): Promise<void> {
    await Promise.all([this.#topic.close(), this.#log.close()]);
  }
}

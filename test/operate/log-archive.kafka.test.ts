/** A log on Kafka that is cut at a checkpoint: the cases of both logs, and what else its topic may hold. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { beginningTopic, controlTopic } from '../../schemas/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { parseBeginning, renderBeginning } from '../../shared/log/core/beginning.ts';
import { dialWith } from '../../shared/log/kafka/client.ts';
import type { TopicPartition } from '../../shared/log/kafka/connection.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { deleteTopics } from '../kafka/empty-broker.ts';
import { archiveCases, cut, topic } from './log-archive-cases.ts';
import { fileIn, killedInEachStep, type Step } from './log-archive-kills.ts';

let kafka: Kafka;
beforeAll(async () => {
  kafka = await startKafka();
});
afterAll(() => kafka?.stop());

async function valuesIn(partition: number): Promise<Buffer[]> {
  const log = await openLog(kafka.url, { topic: beginningTopic, partition }, { allowTrimmed: true });
  const values: Buffer[] = [];
  for await (const records of batchesToEnd(log)) values.push(...records.map(({ value }) => value));
  await log.close();
  return values;
}

async function append(partition: number, values: readonly Buffer[]): Promise<void> {
  const log = await openLog(kafka.url, { topic: beginningTopic, partition });
  for (const value of values) await log.append(value);
  await log.close();
}

type Change = (values: Buffer[]) => readonly Buffer[];
const unchanged: Change = (values) => values;

/** Makes the topic again, with other records. */
async function change(of: { readonly facts?: Change; readonly pieces?: Change }): Promise<void> {
  const { facts = unchanged, pieces = unchanged } = of;
  const [oldFacts, oldPieces] = [await valuesIn(0), await valuesIn(1)];
  await deleteTopics(kafka.brokers, beginningTopic);
  await append(1, pieces(oldPieces));
  await append(0, facts(oldFacts));
}

/** Whole, and written as it must be, but of another commit. */
function ofAnother(value: Buffer): Buffer {
  const found = parseBeginning(value.toString());
  if (found === undefined) throw new Error('it is not what was written');
  return Buffer.from(renderBeginning({ ...found, hash: '0'.repeat(64) }));
}

const each =
  (of: (value: Buffer) => Buffer): Change =>
  (values) =>
    values.map(of);

const fleet = archiveCases({
  newUrl: async () => {
    await deleteTopics(kafka.brokers);
    return kafka.url;
  },
  damages: [
    ['a changed byte of the state', () => change({ pieces: each((value) => value.fill(7, 5000, 5001)) })],
    ['a state that was cut short', () => change({ pieces: each((value) => value.subarray(0, 8192)) })],
    ['a missing state', () => change({ pieces: () => [] })],
    ['a changed byte of what names it', () => change({ facts: each((value) => value.fill(0x31, 60, 61)) })],
    ['a missing beginning', () => deleteTopics(kafka.brokers, beginningTopic)],
    ['the beginning of another log', () => change({ facts: each(ofAnother) })],
  ],
});

test('a later cut takes the place of an earlier one, and of what was left or written by others', async () => {
  const { records } = fleet();
  fleet().checkpoint();
  await fleet().append(records.slice(-1));
  await append(1, [Buffer.from('a piece of a state that was never whole')]);
  await append(0, [Buffer.from('no facts')]);
  const plane = await fleet().startBoth();
  await fleet().archive(plane);
  expect(await valuesIn(0)).toHaveLength(1);
  const run = await fleet().cli(`log archive --before ${records.length} --to archive --yes -o json`, plane);
  expect(JSON.parse(run.out)).toMatchObject({ begin: records.length });
  expect(records.length).toBeGreaterThan(cut);
  expect(await valuesIn(0)).toHaveLength(1);
  await append(0, [Buffer.from('no facts')]);
  const { digests } = fleet().folded();
  const second = await fleet().startPlane('control-plane-2');
  const now = JSON.parse((await fleet().cli(`status --at ${records.length} -o json`, second)).out);
  expect(now.digests).toEqual(digests);
  const log = await openLog(kafka.url, topic);
  expect((await log.beginning?.())?.seq).toBe(records.length);
  await log.close();
});

test('killed in any step, the log has the same state, and the next run finishes the cut', async () => {
  await deleteTopics(kafka.brokers);
  const [host = '', port] = kafka.brokers[0]?.split(':') ?? [];
  const connection = await dialWith({})({ host, port: Number(port) });
  const isPast = (target: TopicPartition, which: 'start' | 'end'): Step => {
    // The topic is not made yet.
    return () =>
      connection.offset(target, which).then(
        (offset) => offset > 0,
        () => false,
      );
  };
  await killedInEachStep(
    () => kafka.url,
    (dir) => [
      fileIn(dir, '.', /^archive\.beginning-\d+-\d+\.db\.part$/),
      isPast({ topic: beginningTopic, partition: 1 }, 'end'),
      isPast({ topic: beginningTopic, partition: 0 }, 'end'),
      isPast({ topic: controlTopic, partition: 0 }, 'start'),
    ],
    0,
  );
  connection.destroy();
});

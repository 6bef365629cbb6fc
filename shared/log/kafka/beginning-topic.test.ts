/** The topic of beginnings, of which everything is untrusted: what is passed over, and what is refused. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { MemoryLog, MemoryTopic } from '../../../test/support/memory-log.ts';
import type { NewBeginning } from '../core/beginning.ts';
import { BeginningTopic } from './beginning-topic.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-beginning-topic-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const state = join(dir, 'state.db');
writeFileSync(state, Buffer.alloc(1_300_000, 7));

class PartitionInMemory extends MemoryLog {
  start = 0;

  async range() {
    return { start: this.start, end: await this.end() };
  }

  async removeBefore(offset: number): Promise<void> {
    this.start = offset;
  }
}

function newTopic() {
  const [facts, pieces] = [0, 1].map(() => new PartitionInMemory(new MemoryTopic())) as [
    PartitionInMemory,
    PartitionInMemory,
  ];
  return { facts, pieces, topic: new BeginningTopic((partition) => (partition === 0 ? facts : pieces)) };
}

const at = (offset: number): NewBeginning => ({
  ...{ log: 'a-log', seq: offset + 1, hash: 'a'.repeat(64), signers: [], offset, foldVersion: 1 },
  trust: [{ value: 'eA==', signature: null }],
});

test('the last facts count whose commit the log has, whatever is between them', async () => {
  const { facts, topic } = newTopic();
  expect(await topic.last(0)).toBeUndefined();
  await topic.add(at(500), state);
  await topic.add(at(62), state);
  await facts.append(Buffer.from('{"beginning":{}}'));
  expect((await topic.last(62))?.facts.offset).toBe(62);
  // Of two commands that ran at once the one that cut the log further counts.
  const kept = await topic.last(500);
  expect(kept).toMatchObject({ facts: { offset: 500 }, state: { offset: 0, bytes: 1_300_000 }, offset: 0 });
  expect(await topic.last(501)).toBeUndefined();
  // Where all records were removed there is nothing to wait for.
  await facts.removeBefore(await facts.end());
  expect(await topic.last(0)).toBeUndefined();
});

test('pieces of two states are not mixed', async () => {
  const { pieces, facts, topic } = newTopic();
  const append = pieces.append.bind(pieces);
  pieces.append = async (value) => {
    const offset = await append(value);
    await append(Buffer.from('of another command'));
    return offset;
  };
  await expect(topic.add(at(62), state)).rejects.toThrow('another headgate log archive writes');
  expect(await facts.end()).toBe(0);
});

test('a state is not read further than it is long, and must be what was written', async () => {
  const { pieces, topic } = newTopic();
  await topic.add(at(62), state);
  await pieces.append(Buffer.from('a piece of another one'));
  const found = await topic.last(62);
  if (found === undefined) throw new Error('it has no facts');
  await topic.copyState(found.state, join(dir, 'whole.db'));
  const longer = { ...found.state, bytes: found.state.bytes + 9 };
  await expect(topic.copyState(longer, join(dir, 'longer.db'))).rejects.toThrow('is not what was written');
  await pieces.removeBefore(1);
  await expect(topic.copyState(found.state, join(dir, 'gone.db'))).rejects.toThrow(
    'is missing; run headgate',
  );
});

/** Tests that pages of the log are complete and in order, and that each is read from the end of the previous page. */
import { expect, test } from 'vitest';
import { LogTruncated } from '../../shared/log/core/control-log.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { howItWaits } from '../../test/support/turns.ts';
import { CommitReader, ReadMarks } from './commits.ts';

async function logOf(commits: number): Promise<{ log: MemoryLog; reads: number[] }> {
  const log = new MemoryLog(new MemoryTopic());
  const writer = new ChainWriter();
  await log.append(writer.open().value);
  for (let n = 1; n < commits; n++) {
    await log.append(writer.add([known('no_op', {})]).value);
    if (n % 7 === 0) await log.append(Buffer.from('junk'));
  }
  const reads: number[] = [];
  const tail = log.tail.bind(log);
  log.tail = (options) => {
    reads.push(options.from);
    return tail(options);
  };
  return { log, reads };
}

test('successive pages contain each commit once, and only the first reads from the beginning', async () => {
  const { log, reads } = await logOf(3000);
  const marks = new ReadMarks();
  const seen: number[] = [];
  const pageSize = 700;
  for (let from = 1; from <= 3000; from += pageSize) {
    const reader = new CommitReader(log, 'test-log', { marks, from });
    for await (const batch of reader.upTo(Math.min(from + pageSize - 1, 3000)))
      seen.push(...batch.map(({ commit }) => commit.seq).filter((seq) => seq >= from));
  }
  expect(seen).toEqual(Array.from({ length: 3000 }, (_, index) => index + 1));
  expect(reads[0]).toBe(0);
  for (const [page, from] of reads.entries()) expect(from).toBeGreaterThanOrEqual(page * pageSize);
});

test.each([
  ['ends before the folded commits', 3, 'test-log'],
  ['is a different one', 9, 'other-log'],
])('reading a log that %s always fails, and never gives an empty page', async (_, commits, id) => {
  const { log } = await logOf(commits);
  const reader = new CommitReader(log, id);
  const read = async (): Promise<void> => {
    for await (const batch of reader.upTo(5)) expect(batch).not.toEqual([]);
  };
  expect(await howItWaits(read)).toBe('threw');
  await expect(read()).rejects.toThrow(LogTruncated);
});

/**
 * Tests that a log with changing signers gives every reader the same commits, whatever other records it contains and however
 * it is read. All readers must skip records by removed signers, outsiders and late writers.
 */

import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CommitReader, ReadMarks } from '../../control-plane/state/commits.ts';
import { emptyHead, type Head, judge, judgeBatch, recordHash } from '../../shared/log/core/chain.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { memorySnapshot, openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import { type SignerLog, signerLog, stepNames } from '../contract/signer-changes.ts';
import { runs } from '../support/budget.ts';
import { folderOfTest } from '../support/folders.ts';
import { MemoryLog, MemoryTopic } from '../support/memory-log.ts';
import { seededRandom } from '../support/random.ts';

const baseSeed = Number(process.env['HEADGATE_SEED'] ?? randomInt(2 ** 32));

interface Read {
  readonly chain: readonly string[];
  readonly signers: readonly string[];
}

function* batches(seed: number, records: readonly LogRecord[]): Generator<readonly LogRecord[]> {
  const random = seededRandom(seed);
  for (let start = 0; start < records.length; ) {
    const size = 1 + Math.floor(random() ** 2 * 30);
    yield records.slice(start, start + size);
    start += size;
  }
}

function oneByOne({ records }: SignerLog): Read {
  let head: Head = emptyHead();
  const chain: string[] = [];
  for (const record of records) {
    const judgement = judge(head, record);
    if (!('accepted' in judgement)) continue;
    head = judgement.head;
    chain.push(head.hash);
  }
  return { chain, signers: head.signers };
}

function inBulk(seed: number, { records }: SignerLog): Read {
  let head: Head = emptyHead();
  const chain: string[] = [];
  for (const batch of batches(seed, records))
    for (const judgement of judgeBatch(head, batch)) {
      if (!('accepted' in judgement)) continue;
      head = judgement.head;
      chain.push(head.hash);
    }
  return { chain, signers: head.signers };
}

test(`the same records count one by one and in batches of any size, from seed ${baseSeed} on`, () => {
  const kinds: Record<string, number> = {};
  const logs = runs({ fast: 15, full: 25 });
  for (let seed = baseSeed; seed < baseSeed + logs; seed++) {
    const log = signerLog(seed, 40);
    const expected = { chain: log.chain, signers: log.signers };
    expect(oneByOne(log), `HEADGATE_SEED=${seed}`).toEqual(expected);
    for (const sizes of [1, 2, 3])
      expect(inBulk(seed * sizes, log), `HEADGATE_SEED=${seed}`).toEqual(expected);
    expect(inBulkAtOnce(log), `HEADGATE_SEED=${seed}`).toEqual(expected);
    for (const [kind, count] of Object.entries(log.kinds)) kinds[kind] = (kinds[kind] ?? 0) + count;
  }
  for (const name of stepNames) expect(kinds[name] ?? 0, name).toBeGreaterThan(logs / 10);
});

function inBulkAtOnce({ records }: SignerLog): Read {
  const judgements = judgeBatch(emptyHead(), records);
  const heads = judgements.flatMap((judgement) => ('accepted' in judgement ? [judgement.head] : []));
  return { chain: heads.map(({ hash }) => hash), signers: heads.at(-1)?.signers ?? [] };
}

test(`a snapshot that is reopened between batches keeps the signers, from seed ${baseSeed} on`, () => {
  const dir = folderOfTest('signers');
  for (let seed = baseSeed; seed < baseSeed + runs({ fast: 2, full: 3 }); seed++) {
    const log = signerLog(seed, 60);
    const path = join(dir, `${seed}.db`);
    for (const batch of batches(seed, log.records)) {
      const { snapshot, rebuiltBecause } = openOrRebuild(path);
      expect(rebuiltBecause).toBeUndefined();
      snapshot.apply(batch);
      snapshot.close();
    }
    const { snapshot } = openOrRebuild(path);
    expect(snapshot.head, `HEADGATE_SEED=${seed}`).toEqual({
      log: 'main',
      seq: log.chain.length,
      hash: log.chain.at(-1),
      signers: log.signers,
    });
    snapshot.close();
  }
});

test(`a replicator, a resumed list of commits and a replay agree, from seed ${baseSeed} on`, async () => {
  for (let seed = baseSeed; seed < baseSeed + runs({ fast: 3, full: 5 }); seed++) {
    const log = signerLog(seed, 80);
    const topic = new MemoryTopic();
    const reader = new MemoryLog(topic);
    const snapshot = memorySnapshot();
    const followed: number[] = [];
    const replicator = new Replicator({
      snapshot,
      log: reader,
      onCommits: (commits) => followed.push(...commits.map(({ seq }) => seq)),
    });
    replicator.start();
    for (const batch of batches(seed, log.records)) {
      for (const { value, signature } of batch) topic.add(value, signature);
      await replicator.caughtUp(10_000);
    }
    expect(snapshot.head, `HEADGATE_SEED=${seed}`).toMatchObject({
      seq: log.chain.length,
      hash: log.chain.at(-1),
      signers: log.signers,
    });
    expect(followed).toEqual(log.chain.map((_, index) => index + 1));
    await replicator.stop();
    snapshot.close();

    const marks = new ReadMarks();
    for (const from of [1, Math.ceil(log.chain.length / 2), log.chain.length]) {
      const hashes = new Map<number, string>();
      const commits = new CommitReader(reader, 'main', { marks, from });
      for await (const batch of commits.upTo(log.chain.length))
        for (const { commit, record } of batch) hashes.set(commit.seq, recordHash(record.value));
      for (let seq = from; seq <= log.chain.length; seq++) expect(hashes.get(seq)).toBe(log.chain[seq - 1]);
    }
    await reader.close();
  }
});

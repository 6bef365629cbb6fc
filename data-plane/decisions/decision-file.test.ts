import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { CompactDecision } from './compact.ts';
import { DecisionFile } from './decision-file.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'decisions-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

const startMs = 1_700_000_000_000;

function decision(n: number, atMs: number): CompactDecision {
  return [1, n.toString(16).padStart(26, '0'), atMs];
}

function decisions(count: number, atMs: (n: number) => number): CompactDecision[] {
  return Array.from({ length: count }, (_, n) => decision(n, atMs(n)));
}

function cpuOfWrites(file: DecisionFile): number {
  const before = process.cpuUsage();
  for (let n = 0; n < 100; n++) file.write([decision(n, startMs)], startMs);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

test('a write costs the same however many decisions the file has', () => {
  const file = new DecisionFile(join(folder, 'decisions.db'));
  cpuOfWrites(file);
  const small = cpuOfWrites(file);
  file.write(
    decisions(30_000, () => startMs),
    startMs,
  );
  const large = cpuOfWrites(file);
  file.close();
  // A write that reads all decisions takes some fifty times as long.
  expect(large).toBeLessThan(10 * small);
});

test('decisions older than the ring goes back are removed, and no others', () => {
  const file = new DecisionFile(join(folder, 'decisions.db'), { ageMsMax: 1000, bytesMax: 1e9 });
  file.write(
    decisions(100, (n) => startMs + n * 100),
    startMs,
  );
  file.write([decision(100, startMs + 6000)], startMs + 6000);
  const kept = file.page(0, 0, 1000).map(({ cells }) => (JSON.parse(cells) as CompactDecision)[2]);
  file.close();
  expect(kept[0]).toBe(startMs + 5000);
  expect(kept).toHaveLength(51);
});

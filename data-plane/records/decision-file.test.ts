import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RecordedRequest } from '../../schemas/request-record.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { DecisionFile } from './decision-file.ts';
import { groupOf } from './decision-group.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'decisions-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

const startMs = 1_700_000_000_000;

function decision(n: number, atMs: number): RecordedRequest {
  return [`req_${n.toString(16).padStart(32, '0')}`, atMs];
}

function decisions(count: number, atMs: (n: number) => number): RecordedRequest[] {
  return Array.from({ length: count }, (_, n) => decision(n, atMs(n)));
}

function cpuOfWrites(file: DecisionFile): number {
  const before = process.cpuUsage();
  for (let n = 0; n < 100; n++) file.write(groupOf([decision(n, startMs)]), startMs);
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

test('a write costs the same however many decisions the file has', () => {
  const file = new DecisionFile(join(folder, 'decisions.db'));
  cpuOfWrites(file);
  const small = cpuOfWrites(file);
  for (let n = 0; n < 3000; n++) file.write(groupOf(decisions(10, () => startMs)), startMs);
  const large = cpuOfWrites(file);
  file.close();
  // A write that reads all decisions takes some fifty times as long.
  expect(large).toBeLessThan(10 * small);
});

test('decisions older than the ring goes back are removed, and no others', () => {
  const file = new DecisionFile(join(folder, 'decisions.db'), { ageMsMax: 1000, bytesMax: 1e9 });
  const write = (one: RecordedRequest, nowMs: number) => file.write(groupOf([one]), nowMs);
  for (let n = 0; n < 100; n++) write(decision(n, startMs + n * 100), startMs);
  write(decision(100, startMs + 6000), startMs + 6000);
  const kept = file.page(0, 0, 1000).map(({ cells }) => (JSON.parse(cells) as RecordedRequest)[1]);
  file.close();
  expect(kept[0]).toBe(startMs + 5000);
  expect(kept).toHaveLength(51);
});

test.each([1, 3, 200])('a decision of a group of %d is found by its id, with each of its cells', (count) => {
  const file = new DecisionFile(join(folder, 'decisions.db'));
  const more = (n: number): RecordedRequest => [...decision(n, startMs + n), 'acme', true, 0.5, 'é"'];
  const groups = [0, 1, 2].map((group) => Array.from({ length: count }, (_, n) => more(group * count + n)));
  for (const group of groups) file.write(groupOf(group), startMs);
  for (const one of groups.flat()) expect(file.find(String(one[0]))).toEqual(one);
  expect(file.find(`req_${'f'.repeat(32)}`)).toBeUndefined();
  expect(file.find('req_')).toBeUndefined();
  const paged = file.page(0, 0, 2).map(({ cells }) => JSON.parse(cells));
  expect(paged).toEqual(groups.flat().slice(0, paged.length));
  file.close();
});

test('an id is not found across two others', () => {
  const file = new DecisionFile(join(folder, 'decisions.db'));
  const [one, two] = ['0123456789abcdef'.repeat(2), 'fedcba9876543210'.repeat(2)];
  file.write(
    groupOf([
      [`req_${one}`, startMs],
      [`req_${two}`, startMs],
    ]),
    startMs,
  );
  expect(file.find(`req_${one.slice(16)}${two.slice(0, 16)}`)).toBeUndefined();
  expect(file.find(`req_${two}`)).toEqual([`req_${two}`, startMs]);
  file.close();
});

test('a group that is damaged costs its own decisions, and none of the others', () => {
  const path = join(folder, 'decisions.db');
  const file = new DecisionFile(path);
  for (let n = 0; n < 3; n++) file.write(groupOf([decision(n, startMs)]), startMs);
  openDatabase(path, { durability: 'normal' })
    .exec("UPDATE decisions SET cells = x'00ff' WHERE id = 2")
    .close();
  expect(file.page(0, 0, 10).map(({ cells }) => JSON.parse(cells))).toEqual([
    decision(0, startMs),
    decision(2, startMs),
  ]);
  expect(file.find(String(decision(1, 0)[0]))).toBeUndefined();
  expect(file.find(String(decision(2, 0)[0]))).toEqual(decision(2, startMs));
  file.close();
});

test('the file keeps its bound where its oldest groups are small and new ones large', () => {
  const bytesMax = 512 * 1024;
  const file = new DecisionFile(join(folder, 'decisions.db'), { ageMsMax: 1e9, bytesMax });
  for (let n = 0; n < 2500; n++) file.write(groupOf([decision(n, startMs)]), startMs);
  const random = (): RecordedRequest => [
    `req_${randomBytes(16).toString('hex')}`,
    startMs,
    randomBytes(100).toString('hex'),
  ];
  for (let n = 0; n < 20; n++) {
    file.write(groupOf(Array.from({ length: 400 }, random)), startMs);
    expect(file.bytes()).toBeLessThan(bytesMax + 128 * 1024);
  }
  file.close();
});

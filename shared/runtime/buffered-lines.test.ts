import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { folderOfTest } from '../../test/support/folders.ts';
import { bufferedLines } from './logger.ts';

let folder: string;
let path: string;
let fd: number;

beforeEach(() => {
  folder = folderOfTest('lines');
  path = join(folder, 'log');
  fd = openSync(path, 'a');
});
afterEach(() => {
  closeSync(fd);
});

async function written(bytes: number): Promise<string> {
  while (readFileSync(path).length < bytes) await new Promise((resolve) => setImmediate(resolve));
  return readFileSync(path, 'utf8');
}

test('lines are written soon and in order, whenever they come', async () => {
  const write = bufferedLines(fd, () => undefined);
  let expected = '';
  for (let round = 0; round < 20; round++) {
    for (let line = 0; line < 50; line++) {
      write(`${round}.${line} ü\n`);
      expected += `${round}.${line} ü\n`;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(await written(Buffer.byteLength(expected))).toBe(expected);
});

test('lines without room are dropped whole and counted, and later lines are written', async () => {
  const dropped: number[] = [];
  const write = bufferedLines(fd, (count) => dropped.push(count), 6);
  for (const line of ['one\n', 'two\n', 'three\n']) write(line);
  expect(await written(4)).toBe('one\n');
  while (dropped.length === 0) await new Promise((resolve) => setImmediate(resolve));
  write('four\n');
  expect(await written(9)).toBe('one\nfour\n');
  expect(dropped).toEqual([2]);
});

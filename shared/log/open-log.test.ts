/** Tests log URLs: what each one means, and that invalid ones are refused by an error that does not repeat them. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfTest } from '../../test/support/folders.ts';
import { LogUrlInvalid, openLog, parseLogUrl } from './open-log.ts';

test.each([
  ['sqlite:./data/log', { kind: 'sqlite', folder: './data/log' }],
  ['sqlite:data', { kind: 'sqlite', folder: 'data' }],
  ['sqlite:/var/lib/headgate', { kind: 'sqlite', folder: '/var/lib/headgate' }],
  ['sqlite:///var/lib/headgate', { kind: 'sqlite', folder: '/var/lib/headgate' }],
  ['sqlite:/with: colon', { kind: 'sqlite', folder: '/with: colon' }],
  ['kafka://localhost:9092', { kind: 'kafka', brokers: ['localhost:9092'] }],
  [
    'kafka://a.example:1,10.0.0.1:2,[::1]:3',
    { kind: 'kafka', brokers: ['a.example:1', '10.0.0.1:2', '[::1]:3'] },
  ],
])('%s is valid', (url, parsed) => {
  expect(parseLogUrl(url)).toEqual(parsed);
});

test.each([
  ...['', 'sqlite', 'sqlite:', 'sqlite: ', 'sqlite://secret/path', 'sqlite:a\0b', '/secret'],
  ...['http://secret', 'memory:secret', 'kafka:secret:1', 'kafka://', 'kafka://secret', 'kafka://a:1,'],
  ...['kafka://user:secret@host:1', 'kafka://a:1/secret'],
])('%j is refused and not repeated', (url) => {
  expect(() => parseLogUrl(url)).toThrow(LogUrlInvalid);
  expect(() => parseLogUrl(url)).not.toThrow(/secret/);
});

test('a folder is opened by an absolute or relative path', async () => {
  const folder = folderOfTest('log');
  const log = await openLog(`sqlite:${folder}/new`, { topic: 'headgate.usage', partition: 2 });
  await log.append(Buffer.from('x'));
  await log.close();
  expect(existsSync(join(folder, 'new', 'headgate.usage-2.db'))).toBe(true);
});

test('an address that cannot be opened is refused with the possible ones', async () => {
  await expect(openLog('http://localhost:9092', { topic: 'a' })).rejects.toThrow(/sqlite:FOLDER.*kafka:/);
});

test.each([
  [{ topic: '' }],
  [{ topic: '..' }],
  [{ topic: '../other' }],
  [{ topic: 'a/b' }],
  [{ topic: 'a'.repeat(250) }],
  [{ topic: 'a', partition: -1 }],
  [{ topic: 'a', partition: 1.5 }],
])('topic %j is refused before anything is opened', async (address) => {
  await expect(openLog('sqlite:never-made', address)).rejects.toThrow(LogUrlInvalid);
});

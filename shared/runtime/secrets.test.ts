import { readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folderOfFile } from '../../test/support/folders.ts';
import { readKafkaSettings } from '../log/kafka/settings.ts';
import { nodeCredentials } from './node-credentials.ts';
import { writeFileAtomically, writeJsonAtomically } from './ready-file.ts';
import {
  isSameSecret,
  persistentToken,
  readForeignSecret,
  readProtectedSetting,
  readSecret,
  requiredSecret,
  tokenLengthMin,
} from './secrets.ts';
import { readSetting } from './settings.ts';

const dir = folderOfFile('secrets');

const blanks: readonly (readonly [string, string | undefined])[] = [
  ['unset', undefined],
  ['empty', ''],
  ['a space', ' '],
  ['many spaces', ' '.repeat(40)],
  ['a line end', '\n'],
  ['tabs', '\t\t'],
];
const tooWeak = [
  'x',
  'short',
  'x'.repeat(tokenLengthMin - 1),
  `  ${'x'.repeat(tokenLengthMin - 1)}  `,
  'words with spaces in them',
];

const kafkaNames = [
  ...['TLS', 'TLS_CA', 'TLS_CERT', 'TLS_KEY', 'SASL_MECHANISM', 'SASL_USERNAME', 'SASL_PASSWORD'],
].map((name) => `HEADGATE_KAFKA_${name}`);

describe.each(blanks)('a blank variable: %s', (_name, value) => {
  const environment = { SECRET: value };
  const isRefused = value !== undefined;
  test.each([readProtectedSetting, readSecret, readForeignSecret])('is no secret or key (%#)', (read) => {
    expect(readSetting('SECRET', environment)).toBeUndefined();
    if (isRefused) {
      expect(() => read('SECRET', environment)).toThrow('SECRET is empty; set SECRET');
    } else expect(read('SECRET', environment)).toBeUndefined();
    expect(() => requiredSecret('SECRET', undefined, environment)).toThrow(/set SECRET/);
  });
  test.each(kafkaNames)('opens no Kafka connection (%s)', (name) => {
    if (isRefused) expect(() => readKafkaSettings({ [name]: value })).toThrow(`${name} is empty`);
    else expect(readKafkaSettings({ [name]: value })).toEqual({});
  });
  test('gives nodes no credentials', () => {
    const variable = 'HEADGATE_NODE_CREDENTIAL_GPU';
    if (isRefused)
      expect(() => nodeCredentials(undefined, { [variable]: value })).toThrow(`${variable} is empty`);
    else expect(nodeCredentials(undefined, { [variable]: value })('gpu')).toBeUndefined();
    if (value !== undefined) writeFileSync(join(dir, 'gpu'), value);
    expect(nodeCredentials(dir, {})('gpu')).toBeUndefined();
  });
});

test.each(tooWeak)('a token like %j is refused by its variable’s name, without its value', (value) => {
  const required = (name: string, from: Record<string, string>) => requiredSecret(name, undefined, from);
  for (const read of [readSecret, required]) {
    let message = '';
    try {
      read('SECRET', { SECRET: value });
    } catch (error) {
      message = String(error);
    }
    expect(message).toMatch(/SECRET must have at least 16/);
    if (value.length > 1) expect(message).not.toContain(value.trim());
  }
});

test('a token is read without its file’s line end', () => {
  expect(readSecret('SECRET', { SECRET: 'a-token-of-some-length\n' })).toBe('a-token-of-some-length');
});

test('a missing or empty secret equals nothing, not even another missing secret', () => {
  for (const given of [undefined, '']) {
    for (const wanted of [undefined, '', 'a-token-of-some-length']) {
      expect(isSameSecret(given, wanted)).toBe(false);
      expect(isSameSecret(wanted, given)).toBe(false);
    }
  }
  expect(isSameSecret('a-token-of-some-length', 'a-token-of-some-length')).toBe(true);
  expect(isSameSecret('a-token-of-some-length', 'a-token-of-some-lengtH')).toBe(false);
});

test('a token file is created once, readable only by its owner, and then read again', () => {
  const path = join(dir, 'made', 'token');
  const token = persistentToken(path, 'hgop');
  expect(token).toMatch(/^hgop_\S{32}$/);
  expect(persistentToken(path, 'hgop')).toBe(token);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(dir, 'made'))).toEqual(['token']);
});

test.each(['', '\n', '   ', 'short\n', ...tooWeak])(
  'a token file that contains %j is refused with the next step',
  (text) => {
    const path = join(dir, 'damaged-token');
    writeFileSync(path, text);
    expect(() => persistentToken(path, 'hgop')).toThrow(/damaged-token .*delete it/);
    expect(readFileSync(path, 'utf8')).toBe(text);
  },
);

test('writing a document replaces a link instead of following it, and a failure leaves no temporary file', () => {
  const folder = join(dir, 'documents');
  writeJsonAtomically(join(folder, 'ready.json'), { first: true });
  writeFileSync(join(dir, 'target'), 'untouched');
  rmSync(join(folder, 'ready.json'));
  symlinkSync(join(dir, 'target'), join(folder, 'ready.json'));
  // Earlier versions used this name for the temporary file. A file that someone planted under it must keep its mode and must
  // not receive the secret.
  const planted = join(folder, `ready.json.${process.pid}.part`);
  writeFileSync(planted, 'planted', { mode: 0o666 });
  writeJsonAtomically(join(folder, 'ready.json'), { token: 'secret' });
  expect(readFileSync(join(dir, 'target'), 'utf8')).toBe('untouched');
  expect(readFileSync(planted, 'utf8')).toBe('planted');
  expect(statSync(join(folder, 'ready.json')).mode & 0o777).toBe(0o600);
  expect(() => writeFileAtomically(folder, 'this is a folder')).toThrow();
  expect(readdirSync(folder).sort()).toEqual(['ready.json', `ready.json.${process.pid}.part`]);
  expect(readdirSync(dir).filter((name) => name.endsWith('.part'))).toEqual([]);
});

describe('a secret in a file', () => {
  const file = join(dir, 'token');
  const token = 'a-token-of-the-file-1';
  const environment = { SECRET_FILE: file };

  test('is its text without the line end', () => {
    writeFileSync(file, `${token}\n`);
    expect([readSecret('SECRET', environment), readForeignSecret('SECRET', environment)]).toEqual([
      token,
      token,
    ]);
    writeFileSync(file, ' p w\r\n');
    expect(readForeignSecret('SECRET', environment)).toBe(' p w');
  });

  test('is never cut off: another system’s secret is whole or refused', () => {
    for (const end of ['', '\n', '\r\n']) {
      writeFileSync(file, 'p'.repeat(4096) + end);
      expect(readForeignSecret('SECRET', environment)).toBe('p'.repeat(4096));
      writeFileSync(file, 'p'.repeat(4097) + end);
      expect(() => readForeignSecret('SECRET', environment)).toThrow(/more than 4096 bytes/);
    }
  });

  test.each([
    ['is empty', ' \n', {}, /is empty/],
    ['is too short for a token', 'secret-text', {}, /SECRET must have at least/],
    ['is too long', 'secret-text'.repeat(1000), {}, /token of SECRET_FILE has more than 4096 bytes/],
    ['is one byte too long', `${'s'.repeat(4096)}x`, {}, /has more than 4096 bytes/],
    ['is there in addition to the variable', token, { SECRET: token }, /SECRET and SECRET_FILE are both set/],
    ['is there in addition to a blank variable', token, { SECRET: ' ' }, /SECRET is empty; set SECRET/],
    ['is missing', token, { SECRET_FILE: join(dir, 'none') }, /cannot read the file .*none of SECRET_FILE/],
    ['is a folder', token, { SECRET_FILE: dir }, /cannot read the file/],
  ])('is refused if it %s, without its text', (_, text, more, message) => {
    writeFileSync(file, text);
    const read = () => readSecret('SECRET', { ...environment, ...more });
    expect(read).toThrow(message);
    expect(read).not.toThrow(/secret-text/);
  });
});

/**
 * Tests files named on a command line, which may be anything. Each command must end without help, with an error that names
 * the file.
 */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfFile } from '../test/support/folders.ts';
import { otherThanFiles } from '../test/support/other-than-files.ts';
import { runCli } from '../test/support/run-cli.ts';

const folder = folderOfFile('named');

const env = {
  HEADGATE_LOG: `sqlite:${folder}/log`,
  HEADGATE_ADMIN: 'http://127.0.0.1:9',
  HEADGATE_TOKEN: 'a-token-of-the-tests-1',
};
const lines = [
  ...['apply -f FILE --yes', 'diff -f FILE', 'replay FILE', 'replay decide --requests FILE'],
  ...['snapshot inspect FILE', 'signer add FILE'],
  ...['org list --token-file FILE', 'backup verify FILE'],
  'backup restore FILE --log sqlite:new --data new --yes',
];

test.each(lines.flatMap((line) => otherThanFiles.map(([what, put]) => [line, what, put] as const)))(
  '`%s` with %s in place of the file ends with an error',
  async (line, _what, put) => {
    const file = join(mkdtempSync(join(folder, 'case-')), 'named');
    put(file);
    const { code, out, err } = await runCli(line.replace('FILE', file).split(' '), { cwd: folder, env });
    expect([out, err]).toEqual(['', expect.stringMatching(/^error\[|named:1:1 /)]);
    expect([1, 2, 3, 4, 6, 7]).toContain(code);
  },
);

test.each(otherThanFiles)('%s in place of the context file ends with an error', async (_what, put) => {
  const file = join(mkdtempSync(join(folder, 'case-')), 'context.json');
  put(file);
  const { code, err } = await runCli(['status'], { cwd: folder, env: { HEADGATE_CONTEXT: file } });
  expect([code, err]).toEqual([2, expect.stringContaining(file)]);
});

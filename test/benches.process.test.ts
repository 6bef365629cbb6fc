/** The benches that take sizes run to their end with small ones: each says its figures in its last line. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { scaledMs } from './support/budget.ts';

const root = join(import.meta.dirname, '..');
const run = promisify(execFile);

test.each([
  ['replay-decide', '--decisions', '500'],
  ['time-travel', '--events', '2000', '--samples', '10'],
  ['backup', '--keys', '500', '--rows', '500'],
])(
  'npm run bench -- %s',
  async (name, ...sizes) => {
    const { stdout } = await run(process.execPath, [`dist/bench/${name}.js`, ...sizes], { cwd: root });
    const figures: unknown = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
    expect(figures).toBeTypeOf('object');
  },
  scaledMs(120_000),
);

import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';

const logger = JSON.stringify(pathToFileURL(resolve('dist/shared/runtime/logger.js')).href);

test.each([
  ['by itself', '', 0],
  ['on purpose', 'process.exit(3);', 3],
  ['of a fault', "throw new Error('a fault');", 1],
])('waiting lines are written when the process ends %s', (_, ending, status) => {
  const program = `
    import { bufferedLines } from ${logger};
    bufferedLines(1, () => undefined)('last words\\n');
    ${ending}`;
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  expect([run.status, run.stdout]).toEqual([status, 'last words\n']);
});

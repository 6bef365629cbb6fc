/** Checks that the documented list of log lines contains each line that a process writes exactly once. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { logEvents } from '../schemas/records/log-events.ts';

const root = new URL('..', import.meta.url).pathname;
const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');

test('every line in the list of log lines is written somewhere', () => {
  const written = files
    .filter((path) =>
      /^(?:agent|cli|control-plane|data-plane|tools\/dev|tools\/simulator|shared)\/.*(?<!\.test)\.ts$/.test(
        path,
      ),
    )
    .map((path) => readFileSync(join(root, path), 'utf8'));
  const texts = Object.values(logEvents).map(([, text]) => text);
  expect(texts.filter((text) => !written.some((source) => source.includes(`'${text}'`)))).toEqual([]);
  expect(new Set(texts).size).toBe(texts.length);
});

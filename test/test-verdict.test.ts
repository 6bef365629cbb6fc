/**
 * Checks how `.ci/run` treats failing tests by running made-up test files, and checks the order in which test files start.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { scaledMs } from './support/budget.ts';
import { longestFiles } from './support/longest-files.ts';

const configOfRun = `export default { test: { projects: ['unit', 'process'].map((name) =>
  ({ test: { name, include: ['**/*.' + name + '.test.js'] } })) } };`;
const good = `import { test } from 'vitest'; test('is good', () => {});`;
/** A test that fails on its first run, which leaves a file behind, and then passes. */
const first = `import { existsSync, writeFileSync } from 'node:fs'; import { expect, test } from 'vitest';
test('is good', () => {});
test('waits', () => {
  const isAgain = existsSync('seen');
  writeFileSync('seen', '');
  expect(isAgain, 'too slow\\nSEED=42').toBe(true);
});`;
const always = `import { expect, test } from 'vitest'; test('is good', () => {});
test('is wrong', () => expect(1, 'one').toBe(2));`;

const timeout = scaledMs(120_000);

function verdict(files: Readonly<Record<string, string>>, command?: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-verdict-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  mkdirSync(join(folder, 'test'));
  for (const [name, text] of Object.entries({ 'vitest.config.js': configOfRun, ...files }))
    writeFileSync(join(folder, name), text);
  const words = command ?? ['npx', '--no-install', 'vitest', 'run'];
  const args = [resolve('tools/scripts/test-verdict.mjs'), ...words];
  const env = { ...process.env, NO_COLOR: '1' };
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' });
  return { status, lines: stdout.trim().split('\n') };
}

test('files that fail because of the machine and pass alone are named with their seeds, and the run passes', {
  timeout,
}, () => {
  // A process test, and a unit test in `test/`, which may start a fleet. Both are run again after a failure.
  const files = { 'b.process.test.js': first, 'test/c.unit.test.js': first.replaceAll('seen', 'seen-too') };
  const { status, lines } = verdict({ 'a.unit.test.js': good, ...files });
  for (const file of Object.keys(files))
    expect(lines).toContainEqual(
      expect.stringMatching(new RegExp(`^passed only when run alone: ${file}: waits: .*too slow`)),
    );
  expect(lines.slice(-2)).toEqual(['  SEED=42', '5 passed, 0 failed']);
  expect(status).toBe(0);
  expect(lines.join('\n')).toMatch(/by project:\n +\d+ {2}(?:unit|process) \(\d files\)\n/);
});

test('a failing unit test is not repeated, and a test that fails twice has failed', { timeout }, () => {
  const { status, lines } = verdict({ 'a.unit.test.js': first, 'b.process.test.js': always });
  expect(lines.filter((line) => line.startsWith('once more'))).toEqual([
    'once more, alone: b.process.test.js',
  ]);
  expect(lines.join('\n')).not.toContain('passed only');
  expect(lines.slice(-4)).toEqual([
    'failed: a.unit.test.js: waits: too slow',
    expect.stringMatching(/^ {2}SEED=42/),
    expect.stringMatching(/^failed: b\.process\.test\.js: is wrong: one/),
    '2 passed, 2 failed',
  ]);
  expect(status).toBe(1);
});

test('an uncaught error belongs to its file, and fails the run unless the file passes alone', {
  timeout,
}, () => {
  const once = `import { existsSync, writeFileSync } from 'node:fs'; import { test } from 'vitest';
test('leaves a promise', async () => {
  if (!existsSync('seen')) void Promise.reject(new Error('left alone'));
  writeFileSync('seen', '');
  await new Promise(setImmediate);
});`;
  const process = verdict({ 'b.process.test.js': once });
  expect(process.lines.slice(-2)).toEqual([
    'passed only when run alone: b.process.test.js: (unhandled): left alone',
    '1 passed, 0 failed',
  ]);
  const unit = verdict({ 'a.unit.test.js': once });
  expect(unit.lines.slice(-2)).toEqual([
    'failed: a.unit.test.js: (unhandled): left alone',
    '1 passed, 1 failed',
  ]);
  expect([process.status, unit.status]).toEqual([0, 1]);
});

test('a failing status that no test explains fails the run, even if all failures pass alone', {
  timeout,
}, () => {
  const none = verdict({}, [process.execPath, '-e', 'process.exit(1)', '--']);
  expect([none.status, none.lines.at(-1)]).toEqual([1, '0 passed, 1 failed']);
  const skipped = ['sh', '-c', 'npx --no-install vitest run "$@"; exit 3', 'sh'];
  const { status, lines } = verdict({ 'b.process.test.js': first }, skipped);
  expect([status, lines.at(-1)]).toEqual([1, '2 passed, 1 failed']);
});

test.each([
  ['npm test', ['unit', 'smoke', 'kafka-smoke']],
  ['npm test -- --all, waiting projects', ['process', 'browser', 'kafka', 'llamacpp']],
])(
  '%s: projects that run together have the same number of workers, without which Vitest runs nothing',
  async (_command, names) => {
    // The path is resolved at run time, so that the build does not compile the configuration too.
    const { default: config } = await import(resolve('vitest.config.ts'));
    const projects = config.test.projects as { test: { name: string; maxWorkers?: number } }[];
    const counts = names.map((name) => projects.find(({ test }) => test.name === name)?.test.maxWorkers);
    expect(counts).toEqual(names.map(() => counts[0]));
    expect(counts[0]).toBeGreaterThan(0);
  },
);

test('the files to run first exist', () => {
  expect(longestFiles.filter((file) => !existsSync(file))).toEqual([]);
  expect(new Set(longestFiles).size).toBe(longestFiles.length);
});

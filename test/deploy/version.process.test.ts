/** Tests that two builds of one release have different versions, and that a build without git has the release's version. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { version } from '../../shared/runtime/version.ts';
import { binary } from '../support/processes.ts';

const root = resolve(import.meta.dirname, '../..');
const release = (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version;
const dir = mkdtempSync(join(tmpdir(), 'headgate-version-'));
afterAll(() => rmSync(dir, { recursive: true }));

/** Returns the commit that a build in this folder would record, or an error message. */
function noted(cwd: string, env: Readonly<Record<string, string>> = {}): string {
  const script = `import { buildCommit } from ${JSON.stringify(join(root, 'tools/scripts/build-commit.mjs'))}; console.log(buildCommit() ?? 'nothing')`;
  const own = { ...process.env, GIT_CEILING_DIRECTORIES: tmpdir(), ...env };
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    cwd,
    env: own,
    encoding: 'utf8',
  });
  return stdout.trim() || stderr;
}

test('the sources have the release’s version, and the build states its commit', () => {
  expect(version()).toBe(release);
  const { commit } = JSON.parse(readFileSync(join(root, 'dist/build.json'), 'utf8')) as { commit?: string };
  const shown = execFileSync(process.execPath, [binary, '--version'], { encoding: 'utf8' }).trim();
  expect(shown).toBe(commit === undefined ? release : `${release}+${commit}`);
});

test('a commit is recorded with whether its files were changed, and only in the project’s folder', () => {
  const project = join(dir, 'project');
  const git = (...words: readonly string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.net', ...words], {
      cwd: project,
      encoding: 'utf8',
    }).trim();
  mkdirSync(join(project, 'inside'), { recursive: true });
  writeFileSync(join(project, 'file'), 'one');
  expect(noted(project)).toBe('nothing');
  git('init', '--quiet');
  expect(noted(project)).toBe('nothing');
  git('add', 'file');
  git('commit', '--quiet', '--message', 'one');
  const commit = `g${git('rev-parse', 'HEAD').slice(0, 7)}`;
  expect(noted(project)).toBe(commit);
  expect(noted(join(project, 'inside'))).toBe('nothing');
  writeFileSync(join(project, 'file'), 'two');
  expect(noted(project)).toBe(`${commit}.changed`);
});

test.each<[string, Readonly<Record<string, string>>, string]>([
  ['with a given revision', { HEADGATE_BUILD_REVISION: '0123456789abcdef' }, 'g0123456'],
  ['with an unknown revision', { HEADGATE_BUILD_REVISION: 'unknown' }, 'nothing'],
  ['on a machine without git', { PATH: '' }, 'nothing'],
])('a build %s', (_, env, expected) => {
  expect(noted(dir, env)).toBe(expected);
});

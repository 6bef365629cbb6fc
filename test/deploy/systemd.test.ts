/**
 * Checks the units in deploy/systemd: their options, that tokens are passed only as credentials, and the verdict of
 * systemd-analyze.
 */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { folderOfFile } from '../support/folders.ts';
import { checkFlags } from './flags.ts';

const folder = resolve(import.meta.dirname, '../../deploy/systemd');
const units = readdirSync(folder).filter((name) => name.endsWith('.service'));
const dir = folderOfFile('units');

function directivesOf(name: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const [, key = '', value = ''] of readFileSync(join(folder, name), 'utf8').matchAll(/^(\w+)=(.*)$/gm))
    found.set(key, [...(found.get(key) ?? []), value]);
  return found;
}

const assignments = (lines: readonly string[]) =>
  Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );

test.each(units)('%s starts a process with its settings, and its tokens are credentials', (name) => {
  const directives = directivesOf(name);
  const all = (key: string) => directives.get(key) ?? [];
  const [, ...words] = (all('ExecStart')[0] ?? '').split(' ');
  const example = readFileSync(join(folder, `${words[0]}.env`), 'utf8').split('\n');
  const settings = example.filter((line) => /^[A-Z]/.test(line));
  const env = assignments([...settings, ...all('Environment')]);
  const { drainDelay = 0, drainTimeout = 0 } = checkFlags(words, env);
  // A process may take 20 s to stop after its drain, and must not be killed before then.
  expect(Number(all('TimeoutStopSec')[0])).toBeGreaterThan(Number(drainDelay) + Number(drainTimeout) + 20);
  expect(all('Restart')).toEqual(['always']);
  expect(settings.filter((line) => /TOKEN|PASSWORD/.test(line))).toEqual([]);
  const credentials = all('LoadCredential').map((each) => each.split(':')[0]);
  const read = Object.entries(env).filter(([variable]) => variable.endsWith('_TOKEN_FILE'));
  expect(read.map(([, path]) => path)).toEqual(credentials.map((credential) => `%d/${credential}`));
  expect(credentials.includes('operator-token')).toBe(words[0] === 'control-plane');
  expect(all('DynamicUser')).toEqual(['yes']);
  expect(all('ProtectSystem')).toEqual(['strict']);
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
if (!hasSystemd) console.warn('SKIPPED: the units need systemd-analyze (Debian: apt-get install systemd)');

test.skipIf(!hasSystemd)('systemd-analyze accepts the units and rates them as confined', () => {
  const files = units.map((name) => {
    const file = join(dir, name.replace('@', '@pool-1'));
    const text = readFileSync(join(folder, name), 'utf8');
    // systemd-analyze requires an existing program, and Headgate is not installed on a test machine.
    writeFileSync(file, text.replaceAll('/usr/local/bin/headgate', process.execPath));
    return file;
  });
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' });
  expect([verified.status, verified.stderr]).toEqual([0, '']);
  for (const file of files) {
    const words = ['security', '--offline=yes', '--threshold=20', '--no-pager', file];
    const { status, stdout, stderr } = spawnSync('systemd-analyze', words, { encoding: 'utf8' });
    expect(status, `${stdout.split('\n').pop()}${stderr}`).toBe(0);
  }
});

/** Tests CLI behaviour that scripts rely on: exit codes when the reader of a pipe closes it early, and dry runs. */
import { execFile } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorToken, ProcessFleet, smallFleet } from '../support/process-fleet.ts';
import { binary, type Launch } from '../support/processes.ts';

const fleet = new ProcessFleet();
let plane: Launch<{ readonly admin: string; readonly console: string }>;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  plane = await fleet.serve('control-plane', 'plane', ['--console-port', '0']);
  env = { HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken };
  await fleet.admin(plane).apply({
    ...smallFleet('http://127.0.0.1:9'),
    organisations: [{ id: 'acme', name: 'A', tier: 'Wide', members: [{ person: 'ana', role: 'owner' }] }],
  });
  writeFileSync(join(fleet.dir, 'no-fleet.md'), '# no fleet\n');
});
afterAll(() => fleet.close());

/** Returns the exit code of the command itself, whatever the rest of the pipe does with its output. */
function codeOf(line: string, pipe: string): Promise<number> {
  const script = `"${process.execPath}" "${binary}" ${line} ${pipe}; exit \${PIPESTATUS[0]}`;
  return new Promise((resolve) => {
    execFile('bash', ['-c', script], { cwd: fleet.dir, env: { ...process.env, ...env } }, (error) =>
      resolve(error === null ? 0 : Number(error.code)),
    );
  });
}

test.each([
  ['doctor', 1],
  ['diff --from 2 --to 3', 1],
  ['explain --org acme --model nope', 1],
  ['key get nope', 3],
  ['validate -f no-fleet.md', 2],
  ['org create acme --name A', 6],
  ['events list', 0],
  ['events export', 0],
  ['--help', 0],
])('%s exits %i even if nobody reads its output', async (line, code) => {
  expect((await fleet.cli(line.split(' '), env)).code).toBe(code);
  // Readers that close the pipe before the first byte.
  const pipes = ['| exec true', '2>&1 | exec true'];
  expect(await Promise.all(pipes.map((pipe) => codeOf(line, pipe)))).toEqual([code, code]);
});

test.each(['member link --org acme --person ana', 'member invite --org acme --role member', 'console open'])(
  '%s --dry-run prints no working link',
  async (line) => {
    for (const format of ['table', 'json', 'name']) {
      const { code, stdout } = await fleet.cli([...line.split(' '), '--dry-run', '-o', format], env);
      expect(code).toBe(0);
      // The output must not contain a sign-in link's ticket, which is a long text without spaces.
      expect(stdout).not.toMatch(/[\w.-]{40,}/);
    }
  },
);

test.each(['console/links', 'organisations/acme/members/ana/link', 'organisations/acme/invitations'])(
  'POST %s with dryRun withholds the ticket',
  async (path) => {
    const body = path.endsWith('invitations') ? { role: 'member' } : {};
    expect(await fleet.admin(plane).call('POST', `/${path}?dryRun=true`, body)).toMatchObject({
      url: `${plane.ready.console}/sign-in`,
    });
  },
);

test('backup --dry-run writes no files', async () => {
  const before = readdirSync(fleet.dir);
  await fleet.cli(['backup', 'to', '--data', 'plane', '--dry-run'], env);
  expect(readdirSync(fleet.dir)).toEqual(before);
});

/** `undo` of a commit of several events: each command in its turn, and what is left where one fails. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type AdminServer,
  errorAnswer,
  startAdminServer,
  type TestAnswer,
  testToken,
} from '../test/support/admin-server.ts';
import { type CliRun, runCli } from '../test/support/run-cli.ts';

const commands = [
  { method: 'PUT', path: '/tiers/Pro', body: { rank: 2 } },
  { method: 'DELETE', path: '/stacks/stk-a-b-1' },
  { method: 'DELETE', path: '/organisations/newt' },
];
const lines = ['PUT /tiers/Pro {"rank":2}', 'DELETE /stacks/stk-a-b-1', 'DELETE /organisations/newt'];
let server: AdminServer;
beforeAll(async () => {
  server = await startAdminServer();
});
afterAll(() => server.close());
beforeEach(() => answerWith({ commands }));

/** Answers to the inverse, and to the command with a path. */
function answerWith(inverse: object, answers: Readonly<Record<string, TestAnswer>> = {}): void {
  server.seen.length = 0;
  server.answer = ({ path }) => {
    if (path === '/events/7/undo') return { body: { of: 7, ...inverse, position: 9 } };
    if (path === '/events/7') return { body: { position: 7, by: 'ana', events: [], changes: [] } };
    return answers[path] ?? { body: { position: 10 } };
  };
}

function undo(...more: string[]): Promise<CliRun> {
  const env = { HEADGATE_ADMIN: server.url, HEADGATE_TOKEN: testToken };
  return runCli(['undo', '7', ...more], { env });
}

const sent = () => server.seen.filter(({ method }) => method !== 'GET');

test('--if-at holds for the first command, which moves the position for the others', async () => {
  const run = await undo('--yes', '--if-at', '9');
  expect(run).toMatchObject({ code: 0, err: '' });
  expect(run.out).toBe(`commit 7 taken back:\n${lines.map((line) => `  ${line}\n`).join('')}`);
  expect(sent().map(({ path, headers }) => [path, headers['if-match']])).toEqual([
    ['/tiers/Pro', '"9"'],
    ['/stacks/stk-a-b-1', undefined],
    ['/organisations/newt', undefined],
  ]);
});

test('--dry-run tries the first command only, and a note says so', async () => {
  const run = await undo('--dry-run');
  expect(run.code).toBe(0);
  expect(run.out).toContain('commit 7 would be taken back:\n');
  expect(run.err).toContain('only the first of 3 commands was tried');
  expect(sent().map(({ path, query }) => [path, query])).toEqual([['/tiers/Pro', { dryRun: 'true' }]]);
  answerWith({ commands }, { '/tiers/Pro': errorAnswer(409, 'Conflict') });
  const refused = await undo('--dry-run');
  expect(refused.code).toBe(6);
  expect(refused.err).not.toContain('were run');
});

test('where one fails half-way, the commands that are left are printed, with --quiet too', async () => {
  answerWith({ commands }, { '/stacks/stk-a-b-1': errorAnswer(409, 'GuardRefused') });
  const run = await undo('--yes', '--quiet');
  expect(run).toMatchObject({ code: 6, out: '' });
  expect(run.err).toContain('error[GuardRefused]');
  const left = run.err.split('left, in this order')[1] ?? '';
  expect(lines.filter((line) => left.includes(line))).toEqual(lines.slice(1));
  expect(sent()).toHaveLength(2);
});

test('the preview says that what was added to an organisation or a stack goes too', async () => {
  const added = 'removes what was added to it since';
  const preview = await undo();
  expect([preview.code, sent()]).toEqual([0, []]);
  expect(preview.err).toContain(added);
  answerWith({ commands: [{ method: 'DELETE', path: '/organisations/acme/members/uma' }] });
  expect((await undo()).err).not.toContain(added);
});

test('a control plane of an earlier release answers with one command, without a list', async () => {
  answerWith({ ...commands[0] });
  const run = await undo('--yes');
  expect(run).toMatchObject({ code: 0, out: `commit 7 taken back:\n  ${lines[0]}\n` });
  expect(sent()).toMatchObject([commands[0]]);
});

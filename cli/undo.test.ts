/**
 * Tests `undo` of a commit with several events. It is a single command of the control plane, which undoes all events or none.
 */
import { beforeEach, expect, test } from 'vitest';
import { cliOf, errorAnswer, type TestAnswer, useAdminServer } from '../test/support/admin-server.ts';
import type { CliRun } from '../test/support/run-cli.ts';

const commands = [
  { method: 'PUT', path: '/tiers/Pro', body: { rank: 2 } },
  { method: 'DELETE', path: '/stacks/stk-a-b-1' },
  { method: 'DELETE', path: '/organisations/newt' },
];
const lines = ['PUT /tiers/Pro  rank 2', 'DELETE /stacks/stk-a-b-1', 'DELETE /organisations/newt'];
const server = useAdminServer();
beforeEach(() => answerWith({ commands }));

/** Sets the control plane's answers to the request for the inverse and to the undo command. */
function answerWith(inverse: object, answer: TestAnswer = { body: { position: 10 } }): void {
  server.seen.length = 0;
  server.answer = ({ method, path }) => {
    if (method === 'GET' && path === '/events/7/undo') return { body: { of: 7, ...inverse, position: 9 } };
    if (path === '/events/7') return { body: { position: 7, by: 'ana', events: [], changes: [] } };
    return answer;
  };
}

const cli = cliOf(server);
const undo = (...more: string[]): Promise<CliRun> => cli(['undo', '7', ...more]);

const sent = () => server.seen.filter(({ method, path }) => method !== 'GET' && path !== '/effect');

test('undoing a commit is one command, and obeys --if-at and --dry-run', async () => {
  const run = await undo('--yes', '--if-at', '9', '--why', 'mistake');
  expect(run).toMatchObject({ code: 0, err: '' });
  expect(run.out).toBe(`commit 7 reversed:\n${lines.map((line) => `  ${line}\n`).join('')}`);
  expect(sent()).toMatchObject([{ method: 'POST', path: '/events/7/undo', query: { why: 'mistake' } }]);
  expect(sent()[0]?.headers['if-match']).toBe('"9"');
  answerWith({ commands });
  const dry = await undo('--dry-run');
  expect(dry).toMatchObject({ code: 0, err: '' });
  expect(dry.out).toContain('commit 7 would be reversed:\n');
  expect(sent()).toMatchObject([{ method: 'POST', path: '/events/7/undo', query: { dryRun: 'true' } }]);
});

test('a refusal covers the whole undo', async () => {
  answerWith({ commands }, errorAnswer(409, 'GuardRefused'));
  const run = await undo('--yes', '--quiet');
  expect(run).toMatchObject({ code: 6, out: '' });
  expect(run.err).toContain('error[GuardRefused]');
  expect(sent()).toHaveLength(1);
});

test('the preview warns that later additions to an organisation or stack are removed too', async () => {
  const added = 'removes what was added to it since';
  const preview = await undo();
  expect([preview.code, sent()]).toEqual([0, []]);
  expect(preview.err).toContain(added);
  answerWith({ commands: [{ method: 'DELETE', path: '/organisations/acme/members/uma' }] });
  expect((await undo()).err).not.toContain(added);
});

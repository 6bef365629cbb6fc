/**
 * Tests that at a terminal, each command that can change how requests are answered says so before it is sent. Scripts must
 * not see this note.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { operationRoute } from '../schemas/admin/admin-routes.ts';
import { isTurning, type TurningName, turningNames } from '../schemas/admin/turned-answers.ts';
import { hourMs } from '../schemas/durations.ts';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';

const fleetFile = join(mkdtempSync(join(tmpdir(), 'headgate-test-')), 'fleet.yaml');
writeFileSync(fleetFile, 'version: 1\n');

/** A command line for each command. If the command asks for confirmation, the second text is typed in reply. */
const lines: Readonly<Record<TurningName, readonly [line: string, typed?: string]>> = {
  'organisation.update': ['org suspend acme'],
  'organisation.delete': ['org delete acme', 'acme'],
  'tier.set': ['tier set Pro --models m1'],
  'tier.delete': ['tier delete Pro', 'Pro'],
  'anonymous.set': ['tier set anonymous --models m1'],
  'model.set': ['model set m1 --family f'],
  'model.delete': ['model delete m1', 'm1'],
  'key.revoke': ['key revoke key-1', 'key-1'],
  'stack.delete': ['stack delete stk-a-b-1', 'stk-a-b-1'],
  'stack.set-surface': ['stack surface stk-a-b-1 anthropic'],
  'stack.install': ['stack install stk-a-b-1 m1'],
  'stack.uninstall': ['stack uninstall stk-a-b-1 m1'],
  'pool.install': ['pool install m1'],
  'pool.uninstall': ['pool uninstall m1'],
  'node.register': ['node register n1 --place pool --url http://127.0.0.1:1 --dialect vllm'],
  'node.delete': ['node remove n1', 'n1'],
  'node.drain': ['node drain n1'],
  'node.undrain': ['node undrain n1'],
  'usage.adjust': ['usage adjust --org acme --tokens -500 --why failed'],
  'fleet.apply': [`apply -f ${fleetFile}`],
  'commit.undo': ['undo 7'],
};
const commands = Object.entries(lines).map(([name, [line, typed]]) => ({ name, line, typed }));

const effect = {
  position: 3,
  recorded: {
    ...{
      since: new Date(Date.now() - hourMs).toISOString(),
      decided: 300,
      asked: 1204,
      differ: 310,
      refused: 310,
    },
    ...{ lost: [], gatewaysSilent: ['gw-2'], groups: [] },
  },
  limits: [],
};
const said =
  '310 of 1,204 requests served in the last hour would be answered differently, all of them refused';

const server = useAdminServer();
beforeEach(() => {
  const other = { id: 'acme', position: 3, changes: [], commands: [], events: [], by: 'ana' };
  server.answer = ({ path }) => ({ body: path === '/effect' ? effect : other });
});

const cli = cliOf(server);
const written = () => server.seen.filter(({ method }) => method !== 'GET').map(({ path }) => path);

test.each(commands)(
  '$line: shows on a terminal which responses it changes, before it is sent',
  async (command) => {
    const { name, line, typed = '' } = command;
    const run = await cli(line, { typed: `${typed}\n` });
    expect(run.code).toBe(0);
    expect(run.err.split(said)).toHaveLength(2);
    expect(run.err).toContain('gw-2');
    expect(run.out).not.toContain('answered differently');
    const [asked, sent] = server.seen.filter(({ method }) => method !== 'GET');
    expect(asked).toMatchObject({
      path: '/effect',
      body: { method: operationRoute(name as TurningName).method },
    });
    const { path: of } = (asked?.body ?? {}) as { path?: string };
    expect(of).toMatch(new RegExp(`^${operationRoute(name as TurningName).path.replace(/:\w+/g, '[^/]+')}$`));
    // Without --yes, undo only shows what it would do and sends no command.
    if (name !== 'commit.undo') expect(sent?.path).toBe(of);
  },
);

test.each(commands)('$line: does not ask for the effect outside a terminal', async ({ line }) => {
  await cli(`${line} --yes`);
  await cli(`${line} --yes`, { typed: '\n' });
  expect(written().length).toBeGreaterThan(0);
  expect(written()).not.toContain('/effect');
});

test('commands that change no response, and quiet ones, do not ask for an effect', async () => {
  await cli('member set acme ana --role owner', { typed: '\n' });
  await cli('member remove acme ana', { typed: 'ana\n' });
  await cli('pool uninstall m1 --quiet', { typed: '\n' });
  await cli('pool uninstall m1 --dry-run', { typed: '\n' });
  expect(written()).not.toContain('/effect');
  expect(written()).toHaveLength(4);
});

test('a command is sent if its effect is unknown, and its refusal is printed once', async () => {
  server.answer = ({ path }) =>
    path === '/effect' ? errorAnswer(503, 'Busy') : { body: { id: 'pool', position: 3 } };
  const sent = await cli('pool uninstall m1', { typed: '\n' });
  expect([sent.code, sent.err]).toEqual([0, expect.stringContaining('its effect is not known: Busy it is')]);
  server.answer = () => errorAnswer(404, 'NotFound');
  const refused = await cli('pool uninstall m1', { typed: '\n' });
  expect([refused.code, refused.err.split('NotFound it is').length]).toEqual([3, 2]);
});

test('a command without effect prints nothing about it, but lowered limits are printed', async () => {
  const { recorded: some } = effect;
  const recorded = { ...some, decided: 9, asked: 9, differ: 0, refused: 0, gatewaysSilent: [] as string[] };
  const answer = {
    position: 3,
    recorded,
    limits: [] as object[],
    changes: undefined as object[] | undefined,
  };
  server.answer = ({ path }) => ({ body: path === '/effect' ? answer : { id: 'pool', position: 3 } });
  expect((await cli('pool uninstall m1', { typed: '\n' })).err).toBe('');
  answer.limits = [{ organisations: 2, what: 'concurrency', from: 9, to: 1 }];
  expect((await cli('tier set Pro --models m1', { typed: '\n' })).err).toBe(
    '1 limit would be lower (--effect shows which)\n',
  );
  recorded.asked = 0;
  recorded.gatewaysSilent = ['gw-2'];
  answer.changes = [{ action: 'change', table: 'tier', id: 'Pro', fields: [] }];
  expect((await cli('tier set Pro --models m1', { typed: '\n' })).err).toBe(
    'No request was served in the last hour; known only from reports: requests of gw-2; ' +
      '1 row would differ; 1 limit would be lower (--effect shows which)\n',
  );
});

test('the table covers exactly the commands that can change responses', () => {
  expect(turningNames.every(isTurning)).toBe(true);
  expect(Object.keys(lines).sort()).toEqual([...turningNames].sort());
});

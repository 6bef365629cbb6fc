/**
 * Tests that a command's predicted effect is true. Of the requests sent before and after the command, exactly those that
 * `--effect` names must get another response, each as predicted.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Effect, effectSchema } from '../../schemas/admin/effect.ts';
import { call, chatBody } from '../support/api.ts';
import { askAdmin } from '../support/ask-admin.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { slashModel, specFleet, stackHost, stacks } from '../support/spec-fleet.ts';

let fleet: TestFleet;
const keys = new Map<string, string>();
const organisations = ['acme', 'birch', 'cedar', 'elder'];
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  for (const organisation of organisations) keys.set(organisation, (await fleet.key(organisation)).value);
  await fleet.settle();
});
afterAll(() => fleet.close());

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken } });

const hosts = [
  { organisation: 'acme', name: stacks.otter, host: stackHost('otter') },
  { organisation: 'acme', name: stacks.idle, host: stackHost('idle') },
  { organisation: 'birch', name: stacks.heron, host: stackHost('heron') },
  ...organisations.map((organisation) => ({ organisation, name: 'shared', host: '127.0.0.1' })),
];
const models = [
  'echo-small',
  'echo-large',
  'echo-embed',
  'echo-private',
  slashModel,
  'echo-idle',
  'echo-locked',
];
/** Prompt of every request. No effect may contain it. */
const prompt = 'a-prompt-that-nobody-keeps';
const paths = { chat: '/v1/chat/completions', messages: '/v1/messages' } as const;

/** Returns the result of each request: `served`, or its status and error type. */
async function answers(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const { organisation, name, host } of hosts)
    for (const model of models)
      for (const [operation, path] of Object.entries(paths)) {
        const more = operation === 'messages' ? { max_tokens: 5 } : {};
        const body = chatBody(model, { ...more, messages: [{ role: 'user', content: prompt }] });
        const key = keys.get(organisation) ?? '';
        const answer = await call({ port: fleet.port(), method: 'POST', path, host, key, body });
        const { error } = JSON.parse(answer.content) as { error?: { type: string } };
        const label = error === undefined ? 'served' : `${answer.status} ${error.type}`;
        found.set([organisation, name, model, operation].join(' '), label);
      }
  return found;
}

const served = (label: string): string => (label.startsWith('served') ? 'served' : label);

/** Returns the predicted change of each request. */
function said({ recorded }: Effect): Map<string, string> {
  const groups = (recorded?.groups ?? []).filter(({ from, to }) => served(from) !== served(to));
  return new Map(
    groups.map(({ organisation, host, model, operation = 'chat', from, to }) => [
      [organisation, host, model, operation].join(' '),
      `${served(from)} -> ${served(to)}`,
    ]),
  );
}

/** Returns the prompts, completions and keys that appear in an effect's text. None should. */
function secretsIn(text: string): string[] {
  return [prompt, 'completion', ...keys.values()].filter((secret) => text.includes(secret));
}

const commands = [
  ['tier', 'set', 'Pro', '--models', 'echo-small'],
  ['tier', 'set', 'Starter', '--models', 'echo-large'],
  ['org', 'set', 'cedar', '--tier', 'Platinum'],
  ['stack', 'surface', stacks.otter, 'anthropic'],
  ['stack', 'uninstall', stacks.heron, 'echo-small'],
  ['pool', 'uninstall', 'echo-embed'],
  ['node', 'drain', 'acme-1'],
  ['org', 'suspend', 'birch'],
  ['node', 'drain', 'pool-1'],
  ['node', 'undrain', 'pool-1'],
  ['stack', 'delete', stacks.otter],
  ['org', 'delete', 'elder'],
];

test.each(commands)(
  'Effect: headgate %s %s %s changes exactly the answers that --effect named',
  async (...command) => {
    const before = await answers();
    const run = await cli(...command, '--effect', '-o', 'json');
    const effect = effectSchema.parse(JSON.parse(run.out));
    const position = await fleet.admin.position();
    const table = await cli(...command, '--effect');
    expect(table.out).toMatch(/^\d+ of \d+ requests served in the last hour would be answered differently/);
    expect(secretsIn(run.out + table.out)).toEqual([]);
    expect(await fleet.admin.position(), 'nothing is written').toBe(position);
    expect(await answers(), 'nothing is changed').toEqual(before);
    expect((await cli(...command, '--yes', '--force')).code).toBe(0);
    await fleet.settle();
    const after = await answers();
    const turned = [...before]
      .map(([question, from]): [string, string, string] => [question, from, after.get(question) ?? ''])
      .filter(([, from, to]) => from !== to && from === 'served')
      .map(([question, from, to]): [string, string] => [question, `${from} -> ${to}`]);
    expect(Object.fromEntries(said(effect))).toEqual(Object.fromEntries(turned));
    expect([run.code, run.err]).toEqual([(effect.recorded?.differ ?? 0) > 0 ? 1 : 0, '']);
    const { recorded } = effect;
    const requests = recorded?.groups.reduce((sum, group) => sum + group.requests, 0);
    expect([recorded?.gatewaysSilent, recorded?.differ]).toEqual([[], requests]);
  },
);

test('Effect: a command that changes no answer says so and exits 0, and other commands are refused', async () => {
  const run = await cli('org', 'set', 'acme', '--name', 'Acme and sons', '--effect');
  expect([run.code, run.out]).toEqual([
    0,
    expect.stringMatching(/^0 of \d+ requests served in the last hour would be answered differently\n$/),
  ]);
  const forget = await cli('gateway', 'forget', 'gateway-9', '--effect');
  expect([forget.code, forget.err]).toEqual([
    2,
    expect.stringContaining('DELETE /gateways/gateway-9 is not a command'),
  ]);
  const backup = await cli('backup', '/nonexistent', '--effect');
  expect([backup.code, backup.err]).toEqual([2, expect.stringContaining('leave out --effect')]);
});

/** Asks for an effect as a member of acme and returns the response. */
async function effectFor(person: string, asked: object) {
  const response = await askAdmin(fleet.controlPlane.admin, '/effect', { body: asked, as: person });
  return { status: response.status, text: await response.text() };
}

test('Effect: a member learns nothing about commits, whether or not they can be undone', async () => {
  await fleet.admin.call('PUT', '/organisations/acme/members/ana', { role: 'owner' });
  const head = await fleet.admin.position();
  const positions = [...Array.from({ length: head + 2 }, (_, at) => at), 1e15];
  const found = await Promise.all(
    positions.map((position) =>
      effectFor('ana', { method: 'POST', path: `/events/${position}/undo`, body: {} }),
    ),
  );
  expect(new Set(found.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(found[0]?.status).toBe(403);
});

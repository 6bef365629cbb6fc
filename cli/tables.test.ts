/**
 * Tests the output of every command for people, on a real fleet with realistic names: no JSON in cells, no table wider than a
 * screen, ages in lists, grouped digits. Every new command must be added to one of the two tables below.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Fleet } from '../schemas/events/fleet.ts';
import { operatorToken, startFleet, type TestFleet } from '../test/support/fleet.ts';
import { type CliOptions, type CliRun, runCli } from '../test/support/run-cli.ts';
import { until } from '../test/support/until.ts';
import type { DemoNodeId } from '../tools/dev/demo-fleet.ts';
import { buildProgram } from './run.ts';
import { processIo } from './terminal/io.ts';
import { commandWords } from './terminal/usage-errors.ts';

const organisation = 'northwind-analytics';
const stack = 'stk-amber-otter-9k2f';
const model = 'meta-llama/llama-3.3-70b-instruct';
const models = [model, 'qwen/qwen2.5-coder-32b-instruct', 'baai/bge-m3', 'mistralai/mistral-small-3.2-24b'];

function fleetOf(urls: Readonly<Record<DemoNodeId, string>>): Fleet {
  const [first = '', second = '', third = ''] = Object.values(urls);
  return {
    version: 1,
    models: models.map((id) => ({ id, family: 'llama', weight: 2 })),
    tiers: [
      {
        id: 'Platinum',
        requestsPerMinute: 60_000,
        concurrency: 4000,
        monthlyTokens: 10_000_000_000,
        models: '*',
      },
      { id: 'Starter', requestsPerMinute: 60, contextTokens: 131_072, models: models.slice(0, 3) },
    ],
    anonymous: { freeTurns: 10, models: [model], total: { requestsPerMinute: 1200 } },
    pool: {
      models,
      nodes: [
        { id: 'pool-eu-west-1a-h100-03', url: first, dialect: 'vllm', models: { [model]: 'echo-small' } },
      ],
    },
    organisations: [
      {
        id: organisation,
        name: 'Northwind Analytics and Forecasting, European Branch',
        tier: 'Platinum',
        members: [{ person: 'annemarie-van-der-berg', role: 'owner' }],
        nodes: [{ id: 'northwind-own-a100-01', url: second, dialect: 'vllm' }],
        stacks: [
          {
            id: stack,
            surface: 'openai',
            models,
            nodes: [{ id: 'stack-h200-01', url: third, dialect: 'vllm' }],
          },
        ],
      },
    ],
  };
}

let fleet: TestFleet;
const names = { key: '', token: '', request: '', revoked: 0, drained: 0, head: 0 };
beforeAll(async () => {
  fleet = await startFleet({ gateways: 2, fleet: fleetOf });
  const { admin } = fleet;
  const key = await fleet.admin.createKey(
    organisation,
    'nightly billing export of the forecasting team',
    '90d',
  );
  const leaked = await admin.createKey(organisation, 'leaked', 'never');
  names.key = key.id;
  names.token = (await admin.createNodeToken('stack-h200-01')).id;
  const why =
    'it was pasted into a public notebook by the forecasting team, see the incident of this morning';
  const revoked = await admin.call('POST', `/keys/${leaked.id}/revoke?why=${encodeURIComponent(why)}`);
  const drained = await admin.call('POST', '/nodes/northwind-own-a100-01/drain?force=true');
  names.drained = Number(drained['position']);
  names.revoked = Number(revoked['position']);
  await fleet.settle();
  const answer = await chat(key.value);
  names.request = answer.headers.get('x-request-id') ?? '';
  await until(
    async () => (await admin.call('GET', '/usage/keys')).items.some((use) => use.key === key.id),
    20_000,
  );
  await until(async () => (await run('explain --request REQUEST')).code === 0, 20_000);
  names.head = await admin.position();
  writeFileSync(join(fleet.dir, 'fleet.yaml'), (await run('export')).out);
  writeFileSync(join(fleet.dir, 'log.jsonl'), (await run('events export')).out);
}, 120_000);
afterAll(() => fleet.close());

async function chat(key: string): Promise<Response> {
  const answer = await fetch(`http://127.0.0.1:${fleet.port()}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }),
  });
  await answer.text();
  return answer;
}

function run(line: string, options: CliOptions = {}): Promise<CliRun> {
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  const words = line.replace(/\b[A-Z]{3,}\b/g, (name) =>
    String(names[name.toLowerCase() as keyof typeof names] ?? name),
  );
  return runCli(words.split(' '), { env, cwd: fleet.dir, ...options });
}

/** Commands that print a list, a resource or a page. Words in capitals stand for names in the fleet. */
const printing = [
  'tier set Platinum --concurrency 1 --effect',
  'effect -f fleet.yaml',
  'org list',
  `org get ${organisation}`,
  'member list',
  'tier list',
  'tier get Platinum',
  'tier get anonymous',
  'model list',
  `model get ${model}`,
  'key list',
  'key get KEY',
  'stack list',
  `stack get ${stack}`,
  'pool get',
  'node list',
  'node get pool-eu-west-1a-h100-03',
  'node token list stack-h200-01',
  'gateway list',
  'gateway get gateway-1',
  'gateway verify gateway-1 --data gateway-1',
  'signer list',
  'status',
  'status --digests',
  'doctor --verbose --skip machine',
  'events list',
  'events show REVOKED',
  'events tail --until-end -o table',
  'requests list',
  'limits list',
  `limits show --org ${organisation}`,
  'limits show --visitors',
  `usage show --org ${organisation}`,
  'usage show --visitors',
  'explain --request REQUEST',
  `explain --org ${organisation} --list`,
  'diff --from 1 --to HEAD',
  'undo DRAINED',
  'snapshot inspect control-plane/state.db',
  'replay log.jsonl --verify',
];
/** Commands that print a sentence, a value, a document or lines for other programs. Other tests check their output. */
const others = Object.entries({
  org: 'create set suspend resume delete',
  member: 'set link invite remove',
  tier: 'set delete',
  model: 'set delete',
  key: 'create revoke',
  stack: 'create delete install uninstall surface',
  pool: 'install uninstall',
  node: 'register drain undrain remove',
  'node token': 'create revoke',
  change: 'list show advance withdraw',
  gateway: 'forget',
  console: 'open',
  events: 'export',
  requests: 'tail',
  signer: 'add remove',
  backup: 'verify restore',
  usage: 'adjust export',
  replay: 'decide',
  decisions: 'export',
})
  .flatMap(([noun, verbs]) => verbs.split(' ').map((verb) => `${noun} ${verb}`))
  .concat('help', 'apply', 'export', 'validate', 'backup');

function everyCommand(command: Command): Command[] {
  const hasAction = command.commands.length === 0 || command.registeredArguments.length > 0;
  return [...(hasAction ? [command] : []), ...command.commands.flatMap(everyCommand)];
}

test('every command is in one of the two tables', async () => {
  const known = everyCommand(await buildProgram(processIo())).map((command) =>
    commandWords(command).join(' '),
  );
  const isIn = (words: string) => (line: string) => line === words || line.startsWith(`${words} `);
  expect(known.length).toBeGreaterThan(60);
  const unlisted = known.filter((words) => ![...printing, ...others].some(isIn(words)));
  expect(unlisted).toEqual([]);
});

const json = /[[{]\s*["{[]|"\s*:|\{\}|\[\]/;
const widthMax = 160;
const isList = (line: string): boolean => / (?:list|show --visitors)\b/.test(line) || line.endsWith('--list');

test.each(printing)('%s prints no JSON, at most 160 columns, and ages in lists', async (line) => {
  const { code, out, err } = await run(line, line.includes('tail') ? { stdoutIsTerminal: true } : {});
  expect([0, 1], err).toContain(code);
  expect(err).not.toMatch(/^error/m);
  const lines = out.trimEnd().split('\n');
  expect(lines.length, out).toBeGreaterThan(0);
  expect(lines.filter((text) => json.test(text))).toEqual([]);
  if (!isList(line) || line.startsWith('limits show')) return;
  expect(lines.filter((text) => [...text].length > widthMax)).toEqual([]);
  expect(lines.filter((text) => /\d{4}-\d{2}-\d{2}T/.test(text))).toEqual([]);
  if (!line.startsWith('events'))
    expect(lines.filter((text) => /(?<![\w.:/-])\d{5,}(?![\w:/])/.test(text))).toEqual([]);
});

test('events have the same sentences as in the console, and long ones are truncated', async () => {
  const { out } = await run('events list');
  for (const sentence of [
    `installed ${model} on ${stack}`,
    `put the organisation ${organisation} on the tier Platinum`,
    `made annemarie-van-der-berg owner of ${organisation}`,
    'registered the node pool-eu-west-1a-h100-03 in the pool',
    'drained the node northwind-own-a100-01',
  ])
    expect(out).toContain(sentence);
  expect(out).toMatch(/it was pasted .*…$/m);
  const shown = await run('events show REVOKED');
  expect(shown.out).toMatch(/^key\.revoked {2}revoked the key key-/m);
  expect(shown.out).toContain('the incident of this morning');
});

test('a key’s last use appears in the list, for one key, and in JSON', async () => {
  const [list, alone] = [await run('key list'), await run('key get KEY')];
  const row = list.out.split('\n').find((text) => text.includes(names.key)) ?? '';
  expect(row).toMatch(/active +in 89d +\d+s +operator +\d+s +1$/);
  expect(list.out).toMatch(/leaked +revoked +never +\d+s +operator +never +0$/m);
  expect(alone.out).toMatch(/^lastUsedAt +\d{4}-\d{2}-\d{2}T\S+Z$/m);
  expect(alone.out).toMatch(/^createdAt +\d{4}-\d{2}-\d{2}T\S+Z$/m);
  const { items } = JSON.parse((await run('key list -o json')).out) as { items: Record<string, unknown>[] };
  expect(items.find(({ id }) => id === names.key)).toMatchObject({ requestsOfDay: 1 });
  expect(items.find(({ name }) => name === 'leaked')).toMatchObject({ lastUsedAt: null, requestsOfDay: 0 });
  // A past state does not include usage, so the columns for usage are empty.
  expect((await run('key list --at HEAD')).out).toMatch(/operator +- +-$/m);
});

test('tables group digits and mix units of time, and JSON contains all digits', async () => {
  expect((await run('tier list')).out).toMatch(/60,000 +4,000 +- +10,000,000,000 +\*/);
  expect((await run('tier get Platinum')).out).toMatch(/^monthlyTokens +10,000,000,000$/m);
  expect((await run('tier get Platinum -o json')).out).toContain('10000000000');
  const used = await run(`limits show --org ${organisation}`);
  expect(used.out).toMatch(/^requests +\d+ of 60,000 in this minute, \d+s left$/m);
  expect(used.out).toMatch(/^pool tokens +\d+ of 10,000,000,000, refills \S+Z \(in \d+d\)$/m);
  expect((await run('model get MODEL'.replace('MODEL', model))).out).toMatch(/^added +\d{4}-/m);
});

test('status shows sync, nodes and refusals with next steps, and digests only if requested', async () => {
  const healthy = await run('status');
  expect(healthy.code).toBe(0);
  expect(healthy.out).toMatch(/^gateways +all 2 in sync at position \d+$/m);
  expect(healthy.out).toMatch(/^nodes +2 of 3 up, 1 drained$/m);
  expect(healthy.out).not.toMatch(/[0-9a-f]{32}/);
  expect((await run('status --digests')).out).toMatch(/^organisation +[0-9a-f]{32}$/m);
  expect(
    Object.keys((JSON.parse((await run('status -o json')).out) as { digests: object }).digests),
  ).toContain('api_key');
  await chat('none');
  await until(async () => /^refused +\d+ requests?/m.test((await run('status')).out), 20_000);
  const refused = await run('status');
  expect(refused.out).toMatch(/1 × 401 Unauthorized\n +next {2}headgate explain --request req_/);
  const [, request = ''] = /--request (req_\S+)/.exec(refused.out) ?? [];
  expect((await run(`explain --request ${request}`)).out).toContain('401 Unauthorized');
  expect((await run('status --at 2')).out).toMatch(
    /^log +log-\S+, position 2, requested from control-plane-1\n$/,
  );
});

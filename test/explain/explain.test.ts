/**
 * Explanations of requests made on the wire: by the `x-request-id` of an answer, `headgate explain` gives the same status,
 * type and message, names the event of the log that made it so, and its first command turns the answer when it is run.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { type Answer, call, chat, chatBody } from '../support/api.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

let fleet: TestFleet;
let port: number;
const keys: Record<string, { id: string; value: string }> = {};
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  port = fleet.port();
  for (const organisation of ['acme', 'birch', 'cedar']) keys[organisation] = await fleet.key(organisation);
  await fleet.settle();
});
afterAll(() => fleet.close());

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken } });
const keyOf = (organisation: string): string => keys[organisation]?.value ?? '';

async function explainRequest(
  answer: Answer,
  ...more: string[]
): Promise<{ run: CliRun; found: Explanation }> {
  const run = await cli('explain', '--request', answer.fields['x-request-id'] ?? '', '-o', 'json', ...more);
  if (run.out === '') throw new Error(run.err);
  return { run, found: explanationSchema.parse(JSON.parse(run.out)) };
}

/** What the answer says and what its explanation says are the same. */
function expectSame(answer: Answer, { run, found }: { run: CliRun; found: Explanation }): void {
  const refusal = answer.status === 200 ? undefined : JSON.parse(answer.content).error;
  expect(found.verdict).toEqual(
    refusal === undefined
      ? { served: true, status: 200 }
      : { served: false, status: answer.status, type: refusal.type, message: refusal.message },
  );
  expect(run.code).toBe(refusal === undefined ? 0 : 1);
  expect(found.same).toBe(true);
}

/** The event that the decisive step names is in the log, at that position. */
async function expectEvent(found: Explanation, type: string): Promise<void> {
  const because = found.steps.find(({ step }) => step === found.decisive)?.because;
  expect(because?.type).toBe(type);
  const run = await cli(
    'events',
    'list',
    '--from',
    String(because?.position),
    '--to',
    String(because?.position),
    '-o',
    'jsonl',
  );
  expect(run.out).toContain(`"type":"${type}"`);
}

let made = 0;
/** An organisation with a tier of its own. */
async function newcomer(limits: object): Promise<{ id: string; key: string; tier: string }> {
  const tier = `Tier-${++made}`;
  const id = `newcomer-${made}`;
  await fleet.admin.call('PUT', `/tiers/${tier}`, { rank: 10 + made, models: ['echo-small'], ...limits });
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  const { value: key } = await fleet.key(id);
  await fleet.settle();
  return { id, key, tier };
}

/** Runs the first command, and gives what it printed. */
async function runFirst(found: Explanation): Promise<string> {
  const [first = ''] = found.would;
  expect(first).toMatch(/^headgate /);
  const run = await cli(...first.split(' ').slice(1), '--yes');
  expect(run.err + run.out, first).not.toContain('error[');
  await fleet.settle();
  return run.out.trim();
}

interface Case {
  readonly type: string;
  readonly name: string;
  /** Arranges the state and gives how the request is made, with a key in place of the own one. */
  arrange(): Promise<(key?: string) => Promise<Answer>>;
  readonly event: string;
}

const cases: readonly Case[] = [
  {
    ...{ type: 'Unauthorized', name: 'a revoked key', event: 'key.revoked' },
    arrange: async () => {
      const { id, value } = await fleet.key('cedar');
      await fleet.admin.call('POST', `/keys/${id}/revoke`);
      await fleet.settle();
      return (key = value) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'InferenceUnavailableError', name: 'drained nodes of the pool', event: 'node.drained' },
    arrange: async () => {
      await fleet.admin.call('POST', '/nodes/pool-1/drain');
      await fleet.settle();
      return (key = keyOf('cedar')) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a model that the tier does not include', event: 'tier.set' },
    arrange: async () => {
      const { key: own } = await newcomer({ models: ['echo-idle'] });
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a model that the lowest tier does not include' },
    event: 'tier.set',
    arrange: async () => {
      const { key: own } = await newcomer({ models: ['echo-idle'] });
      return (key = own) => chat({ port, key, model: 'echo-large' });
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a suspended organisation', event: 'organisation.suspended' },
    arrange: async () => {
      const { id, key: own } = await newcomer({});
      await fleet.admin.call('PATCH', `/organisations/${id}`, { suspended: true });
      await fleet.settle();
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{
      type: 'DedicatedOnlyModelError',
      name: 'a model taken from the pool',
      event: 'pool.model_uninstalled',
    },
    arrange: async () => {
      const { key: own } = await newcomer({ models: '*' });
      await fleet.admin.call('DELETE', '/pool/models/echo-small');
      await fleet.settle();
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a stack with a drained node', event: 'node.drained' },
    arrange: async () => {
      await fleet.admin.call('POST', '/nodes/acme-s1/drain');
      await fleet.settle();
      return (key = keyOf('acme')) => chat({ port, key, host: stackHost('otter'), model: 'echo-large' });
    },
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a stack without the model', event: 'stack.model_uninstalled' },
    arrange: async () => {
      await fleet.admin.call('DELETE', `/stacks/${stacks.otter}/models/echo-large`);
      await fleet.settle();
      return (key = keyOf('acme')) => chat({ port, key, host: stackHost('otter'), model: 'echo-large' });
    },
  },
  {
    ...{ type: 'UnsupportedShapeError', name: 'the other API style of a stack', event: 'stack.created' },
    arrange:
      async () =>
      (key = keyOf('birch')) =>
        call({
          ...{ port, key, host: stackHost('heron'), method: 'POST', path: '/v1/messages' },
          headers: { 'anthropic-version': '2023-06-01' },
          body: { ...chatBody('echo-small'), max_tokens: 5 },
        }),
  },
  {
    ...{ type: 'InferenceUpsellError', name: 'an allowance that is used up', event: 'tier.set' },
    arrange: async () => {
      const { key: own } = await newcomer({ monthlyTokens: 1 });
      expect((await chat({ port, key: own, model: 'echo-small' })).status).toBe(200);
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'ContextWindowExceededError', name: 'a small context', event: 'tier.set' },
    arrange: async () => {
      const { key: own } = await newcomer({ contextTokens: 4 });
      return (key = own) => chat({ port, key, model: 'echo-small', more: { max_tokens: 50 } });
    },
  },
  {
    ...{ type: 'InferenceRateLimitedError', name: 'too many requests', event: 'tier.set' },
    arrange: async () => {
      const { key: own } = await newcomer({ requestsPerMinute: 0 });
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
  {
    ...{ type: 'InferenceConcurrencyLimitedError', name: 'too many in flight', event: 'tier.set' },
    arrange: async () => {
      const { key: own } = await newcomer({ concurrency: 0 });
      return (key = own) => chat({ port, key, model: 'echo-small' });
    },
  },
];

describe('what is refused is explained by its event, and its first command turns it:', () => {
  test.each(cases)('$type, $name', async ({ type, arrange, event }) => {
    const send = await arrange();
    const answer = await send();
    expect(JSON.parse(answer.content).error?.type).toBe(type);
    const explained = await explainRequest(answer);
    expectSame(answer, explained);
    await expectEvent(explained.found, event);
    // After other plans, the tier without its limit.
    if (/Context|Upsell|Limited/.test(type))
      expect(explained.found.would.at(-1)).toMatch(/^headgate tier set Tier-\d+ --[a-z-]+ none$/);
    const printed = await runFirst(explained.found);
    const again = await send(type === 'Unauthorized' ? printed : undefined);
    expect(again.status, again.content).toBe(200);
    const after = await explainRequest(again);
    expectSame(again, after);
  });
});

describe('what is served, or refused for its own sake, is explained:', () => {
  const anthropic = { 'anthropic-version': '2023-06-01' };
  const body = chatBody('echo-large');
  const sent: readonly (readonly [string, () => Promise<Answer>, string])[] = [
    ['the pool', () => chat({ port, key: keyOf('cedar'), model: 'echo-small' }), 'nodes'],
    ['an own node', () => chat({ port, key: keyOf('acme'), model: 'echo-small' }), 'own nodes'],
    [
      'a stack',
      () => chat({ port, key: keyOf('acme'), host: stackHost('otter'), model: 'echo-large' }),
      'nodes',
    ],
    [
      'a stream',
      () => chat({ port, key: keyOf('cedar'), model: 'echo-small', more: { stream: true } }),
      'nodes',
    ],
    [
      'headers that are too large',
      () => chat({ port, key: keyOf('acme'), model: 'echo-small', headers: { a: 'a'.repeat(20_000) } }),
      'http',
    ],
    ['a public listing', () => call({ port, method: 'GET', path: '/v1/models' }), 'listing'],
    [
      'embeddings',
      () =>
        call({
          port,
          key: keyOf('birch'),
          method: 'POST',
          path: '/v1/embeddings',
          body: { model: 'echo-embed', input: 'a' },
        }),
      'nodes',
    ],
    ['no key', () => call({ port, method: 'POST', path: '/v1/chat/completions', body }), 'key'],
    ['no key that is known', () => chat({ port, key: 'hg_0', model: 'echo-small' }), 'key'],
    [
      'an unknown path',
      () => call({ port, key: keyOf('acme'), method: 'POST', path: '/v1/none', body }),
      'path',
    ],
    [
      'an unknown host',
      () => chat({ port, key: keyOf('acme'), host: 'other.test', model: 'echo-small' }),
      'host',
    ],
    [
      'a foreign stack',
      () => chat({ port, key: keyOf('cedar'), host: stackHost('otter'), model: 'echo-large' }),
      'stack',
    ],
    [
      'a missing stack',
      () => chat({ port, key: keyOf('cedar'), host: stackHost('missing'), model: 'echo-large' }),
      'stack',
    ],
    ['a model that nobody knows', () => chat({ port, key: keyOf('acme'), model: 'no-such-model' }), 'pool'],
    [
      'a body that cannot be carried',
      () => chat({ port, key: keyOf('acme'), model: 'echo-small', more: { n: 'x' } }),
      'shape',
    ],
    [
      'messages on the shared host',
      () =>
        call({
          port,
          key: keyOf('acme'),
          method: 'POST',
          path: '/v1/messages',
          headers: anthropic,
          body: { ...body, max_tokens: 3 },
        }),
      'surface',
    ],
  ];
  test.each(sent)('%s', async (_name, send, step) => {
    const answer = await send();
    const explained = await explainRequest(answer);
    expectSame(answer, explained);
    const { steps, verdict } = explained.found;
    const wanted = verdict.served ? 'ok' : 'refused';
    expect(steps.find((each) => each.step === step)).toMatchObject({ result: wanted });
  });

  test('a switched stack, with the key in x-api-key', async () => {
    await fleet.admin.call('PUT', `/stacks/${stacks.otter}/surface`, { surface: 'anthropic' });
    await fleet.settle();
    const answer = await call({
      ...{ port, host: stackHost('otter'), method: 'POST', path: '/v1/messages' },
      headers: { ...anthropic, 'x-api-key': keyOf('acme') },
      body: { ...body, max_tokens: 3 },
    });
    expect(answer.status).toBe(200);
    expectSame(answer, await explainRequest(answer));
    const twoKeys = await call({
      ...{ port, host: stackHost('otter'), method: 'POST', path: '/v1/messages', key: 'hg_1' },
      headers: { ...anthropic, 'x-api-key': keyOf('acme') },
      body: { ...body, max_tokens: 3 },
    });
    expect(twoKeys.status).toBe(401);
    expectSame(twoKeys, await explainRequest(twoKeys));
  });
});

test('a change of the models of a tier alone is the event of its step', async () => {
  const { tier, key } = await newcomer({});
  const { position } = await fleet.admin.call('PUT', `/tiers/${tier}`, {
    rank: 10 + made,
    models: ['echo-idle'],
  });
  await fleet.settle();
  const { found } = await explainRequest(await chat({ port, key, model: 'echo-small' }));
  expect(found.steps.find(({ step }) => step === 'tier')?.because).toMatchObject({
    type: 'tier.set',
    position,
  });
});

test('a request that was not made finds the requests of the minute', async () => {
  const { id, key } = await newcomer({ requestsPerMinute: 1 });
  const ask = async () => {
    await chat({ port, key, model: 'echo-small' });
    const run = await cli('explain', '--org', id, '--model', 'echo-small', '-o', 'json');
    return explanationSchema.parse(JSON.parse(run.out));
  };
  await until(async () => (await ask()).verdict.type === 'InferenceRateLimitedError', 60_000);
  const { assumptions, steps } = await ask();
  expect(assumptions.join()).toContain('as gateways published them');
  expect(steps.find(({ step }) => step === 'requests')?.text).toBe('1 in this minute, of 1');
});

test('the step of the key names the key and its organisation, as they are called', async () => {
  const { tier } = await newcomer({});
  const id = `named-${made}`;
  await fleet.admin.call('POST', '/organisations', { id, name: 'Acme Works', tier });
  const { id: keyId, value } = await fleet.admin.createKey(id, 'nightly batch');
  await fleet.settle();
  const { found } = await explainRequest(await chat({ port, key: value, model: 'echo-small' }));
  const text = found.steps.find(({ step }) => step === 'key')?.text;
  expect(text).toContain(`nightly batch (${keyId}) of Acme Works (${id})`);
  const assumed = await cli('explain', '--org', id, '--model', 'echo-small', '-o', 'json');
  const { steps } = explanationSchema.parse(JSON.parse(assumed.out));
  expect(steps.find(({ step }) => step === 'key')?.text).toBe(`any good key of Acme Works (${id})`);
});

test('on a terminal the page keeps to its width and paints what decides; elsewhere a step is one line', async () => {
  const { key } = await newcomer({ models: ['echo-idle'] });
  const id = (await chat({ port, key, model: 'echo-small' })).fields['x-request-id'] ?? '';
  const page = (options: object): Promise<CliRun> =>
    runCli(['explain', '--request', id], {
      env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken },
      ...options,
    });
  const esc = String.fromCharCode(27);
  const unpainted = (text: string): string => text.replaceAll(new RegExp(`${esc}\\[\\d+m`, 'g'), '');
  const [wide, narrow] = [await page({}), await page({ stdoutIsTerminal: true, columns: 80 })];
  expect(wide.out).not.toContain(esc);
  const decisive = wide.out.split('\n').filter((line) => line.includes('◀'));
  expect(decisive).toHaveLength(1);
  expect(decisive[0]).toMatch(/^ {2}⨉ tier .* does not include it +tier\.set \d+ operator {2}◀ decided it$/);
  expect(narrow.out).toContain(`${esc}[31m⨉${esc}[39m`);
  // Nothing was asked after the refusal: its sign is faint, as that of a step that was skipped.
  expect(narrow.out).toContain(`${esc}[2m`);
  for (const line of unpainted(narrow.out).split('\n'))
    if (!line.trim().startsWith('headgate ')) expect([...line].length, line).toBeLessThanOrEqual(80);
  const words = (text: string) => new Set(unpainted(text).split(/\s+/));
  for (const word of words(narrow.out))
    if (!['with', 'one', 'of:', '·'].includes(word)) expect(words(wide.out)).toContain(word);
});

test('a line of the journal is explained from stdin, and a person sees the own organisation only', async () => {
  const answer = await chat({ port, key: keyOf('acme'), model: 'no-such-model' });
  const exported = await cli('decisions', 'export', '--since', '1h');
  expect(exported.code).toBe(0);
  const line =
    exported.out.split('\n').find((each) => each.includes(answer.fields['x-request-id'] ?? '')) ?? '';
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  const run = await runCli(['explain', '--request', '-'], { env, stdin: `${line}\n` });
  expect(run.code).toBe(1);
  expect(run.out).toContain('refused  404 DedicatedOnlyModelError');
  await fleet.admin.call('PUT', '/organisations/birch/members/bea', { role: 'viewer' });
  const foreign = await cli('explain', '--as', 'bea', '--request', answer.fields['x-request-id'] ?? '');
  expect(foreign.code).toBe(4);
  const own = await cli(
    'explain',
    '--as',
    'bea',
    '--org',
    'birch',
    '--model',
    'echo-small',
    '--host',
    stacks.otter,
    '-o',
    'json',
  );
  const missing = await cli(
    'explain',
    '--as',
    'bea',
    '--org',
    'birch',
    '--model',
    'echo-small',
    '--host',
    stacks.missing,
    '-o',
    'json',
  );
  expect(own.code).toBe(1);
  const text = (run: CliRun) =>
    run.out
      .replaceAll(stacks.otter, 'X')
      .replaceAll(stacks.missing, 'X')
      .replace(/[\d.]+ s ago/, '')
      .replace(/"at": \d+/, '');
  expect(text(own)).toBe(text(missing));
});

test('the matrix of an organisation agrees with the explanation of each of its cells', async () => {
  const run = await cli('explain', '--org', 'birch', '--list', '-o', 'json');
  expect(run.code).toBe(0);
  const { items } = JSON.parse(run.out) as {
    items: { model: string; host: string; status: number; served: boolean }[];
  };
  // What its tier, its stacks and its own nodes have, at each host, and nothing of others.
  const { tier } = await fleet.admin.call('GET', '/organisations/birch');
  const { models } = await fleet.admin.call('GET', `/tiers/${tier}`);
  const own = await fleet.admin.call('GET', '/stacks?organisation=birch');
  const installed = (own['items'] as { models: string[] }[]).flatMap((stack) => stack.models);
  const hosts = new Set(items.map(({ host }) => host)).size;
  const shown = new Set(items.map(({ model }) => model));
  expect([...shown]).toEqual(expect.arrayContaining([...(models as string[]), ...installed]));
  expect([hosts, items.length]).toEqual([1 + (own['items'] as object[]).length, hosts * shown.size]);
  for (const { model, host, status, served } of items.slice(0, 6)) {
    const one = await cli('explain', '--org', 'birch', '--model', model, '--host', host, '-o', 'json');
    expect(JSON.parse(one.out).verdict).toMatchObject({ status, served });
    expect(one.code).toBe(served ? 0 : 1);
  }
});

test('what changed since a position is named, with its event', async () => {
  const before = await fleet.admin.position();
  await fleet.admin.call('POST', '/nodes/birch-s1/drain');
  const argv = [
    'explain',
    '--org',
    'birch',
    '--model',
    'echo-small',
    '--host',
    stacks.heron,
    '--path',
    'messages',
    '-o',
    'json',
  ];
  const run = await cli(...argv, '--diff', String(before));
  expect(run.code).toBe(1);
  const { diff, before: earlier } = explanationSchema.parse(JSON.parse(run.out));
  expect(diff).toMatchObject({
    from: before,
    steps: ['nodes'],
    events: [{ type: 'node.drained', by: 'operator' }],
  });
  expect(earlier).toMatchObject({ position: before, served: true, status: 200 });
  await fleet.admin.call('POST', '/nodes/birch-s1/undrain');
  const same = await cli(...argv, '--diff', String(await fleet.admin.position()));
  expect(same.code).toBe(0);
});

test.each([
  ['--key', 'key-none', 3],
  ['--org', 'nobody', 3],
  ['--request', `req_${'0'.repeat(32)}`, 3],
])('what is not there ends with exit 3: %s', async (flag, id, code) => {
  expect((await cli('explain', flag, id, '--model', 'echo-small')).code).toBe(code);
});

describe('a past moment', () => {
  test('is explained for every row of the table of commands, and one outside the log ends with exit 3', async () => {
    const { id, key } = await newcomer({ models: ['echo-idle'] });
    const { id: keyId } = await fleet.key(id);
    await fleet.settle();
    const answer = await chat({ port, key, model: 'echo-small' });
    const request = answer.fields['x-request-id'] ?? '';
    const before = String((await explainRequest(answer)).found.at);
    await fleet.key(id);
    await fleet.settle();
    const rows = readFileSync('docs/explain.md', 'utf8').split('\n');
    const documented = rows.filter((row) => row.startsWith('|')).join('\n');
    const ways: readonly (readonly string[])[] = [
      ['--request', request],
      ['--key', keyId, '--model', 'echo-small'],
      [
        '--org',
        id,
        '--model',
        'echo-small',
        '--host',
        'shared',
        '--path',
        'messages',
        '--prompt-tokens',
        '5',
        '--max-tokens',
        '7',
      ],
      ['--visitor', '--model', 'echo-small'],
      ['--org', id, '--list'],
      ['--org', id, '--model', 'echo-small', '--diff', before],
    ];
    for (const way of ways) {
      for (const option of way.filter((word) => word.startsWith('--'))) expect(documented).toContain(option);
      const run = await cli('explain', ...way, '--at', before, '-o', 'json');
      expect([0, 1], `${way.join(' ')}: ${run.err}`).toContain(run.code);
      const { at, position } = JSON.parse(run.out);
      expect(String(at ?? position), way.join(' ')).toBe(before);
      for (const outside of ['1000000', '2000-01-01T00:00:00Z'])
        expect((await cli('explain', ...way, '--at', outside)).code, way.join(' ')).toBe(3);
    }
  });
});

describe('replay decide decides recorded requests again:', () => {
  const replay = (lines: readonly string[], ...more: string[]): Promise<CliRun> => {
    const path = join(fleet.dir, 'recorded.jsonl');
    writeFileSync(path, `${lines.join('\n')}\n`);
    return cli('replay', 'decide', '--requests', path, '-o', 'json', ...more);
  };
  /** With those of the tests above: most kinds of refusals and of served requests. */
  const exported = async (): Promise<string[]> => {
    for (const model of ['echo-small', 'no-such-model']) await chat({ port, key: keyOf('acme'), model });
    const { out, code } = await cli('decisions', 'export', '--since', '1h');
    expect(code).toBe(0);
    return out.trim().split('\n');
  };

  test('all that the gateways recorded comes out the same', async () => {
    const lines = await exported();
    expect(lines.length).toBeGreaterThanOrEqual(2);
    const run = await replay(lines);
    expect(JSON.parse(run.out)).toEqual({ decided: lines.length, differ: 0, outside: 0 });
    expect(run.code).toBe(0);
  });

  test('a record that the rules decide otherwise is printed with its first step, and no other', async () => {
    const { id, key } = await newcomer({ contextTokens: 4000 });
    expect((await chat({ port, key, model: 'echo-small' })).status).toBe(200);
    const lines = await exported();
    const index = lines.findIndex((line) => JSON.parse(line).organisation === id);
    const changed = { ...JSON.parse(lines[index] ?? ''), promptTokens: 1e9 };
    const run = await replay(lines.with(index, JSON.stringify(changed)));
    const printed = run.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(printed).toHaveLength(2);
    expect(printed[0]).toMatchObject({ req: changed.req, position: changed.position, step: 'context' });
    expect(printed[1]).toEqual({ decided: lines.length, differ: 1, outside: 0 });
    expect(run.code).toBe(1);
  });

  test('positions that the log does not have are counted, and a line that is no record is named', async () => {
    const [line = ''] = await exported();
    const later = JSON.stringify({ ...JSON.parse(line), position: 1e9 });
    const run = await replay([line, later]);
    expect(JSON.parse(run.out)).toEqual({ decided: 1, differ: 0, outside: 1 });
    expect(JSON.parse((await replay([line], '--at', String(JSON.parse(line).position))).out)).toMatchObject({
      decided: 1,
    });
    expect((await replay([line], '--at', '1000000')).code).toBe(3);
    const wrong = await replay([line, '{"v":1}']);
    expect(wrong.code).toBe(2);
    expect(wrong.err).toContain('recorded.jsonl:2:1 is not a recorded decision');
  });
});

test('no file of a run holds a key, a prompt, a header or an address of a caller', async () => {
  const canary = 'canary-5f1c9e';
  const key = keyOf('acme');
  const headers = { 'user-agent': `${canary}-agent`, 'x-forwarded-for': '203.0.113.77' };
  const more = { messages: [{ role: 'user', content: `${canary}-prompt` }] };
  await chat({ port, key, model: 'echo-small', more, headers });
  await chat({ port, key, model: `${canary}-model`, more, headers });
  await chat({ port, key: `${canary}-key`, model: 'echo-small', headers });
  const { out } = await cli('decisions', 'export', '--since', '1h');
  expect(out.split('\n').length).toBeGreaterThan(3);
  const files = readdirSync(fleet.dir, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  expect(files.some(({ name }) => name === 'decisions.db')).toBe(true);
  const texts = [out, ...files.map((file) => readFileSync(join(file.parentPath, file.name), 'latin1'))];
  for (const secret of [canary, key, '203.0.113.77'])
    expect(
      texts.filter((text) => text.includes(secret)),
      secret,
    ).toEqual([]);
});

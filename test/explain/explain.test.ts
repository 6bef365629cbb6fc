/**
 * Tests `headgate explain` and `replay decide` on a running fleet: real and hypothetical requests, present and past, and who
 * may ask for them. golden.test.ts explains every cause of a refusal.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { call, chat } from '../support/api.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { completion } from '../support/process-fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet, stacks } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import { ask, becauseOf, explained, limit, positionOf, refused, runFirst, useScene, ways } from './ways.ts';

let fleet: TestFleet;
let port: number;
const keys: Record<string, string> = {};
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  port = fleet.port();
  const { admin, settle } = fleet;
  for (const organisation of ['acme', 'birch', 'cedar'])
    keys[organisation] = (await fleet.key(organisation)).value;
  await admin.call('PUT', `/stacks/${stacks.heron}/surface`, { surface: 'anthropic' });
  await settle();
  useScene({ admin, port, keys, cli, settle });
});
afterAll(() => fleet.close());

const cliWith = (argv: readonly string[], options: object): Promise<CliRun> =>
  runCli(argv, {
    env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken },
    ...options,
  });
const cli = (...argv: string[]): Promise<CliRun> => cliWith(argv, {});
const keyOf = (organisation: string): string => keys[organisation] ?? '';

let made = 0;
async function newcomer(limits: object): Promise<{ id: string; key: string; tier: string }> {
  const tier = `Tier-${++made}`;
  const id = `newcomer-${made}`;
  await fleet.admin.call('PUT', `/tiers/${tier}`, { rank: 100 + made, models: ['echo-small'], ...limits });
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier });
  const { value: key } = await fleet.key(id);
  await fleet.settle();
  return { id, key, tier };
}

test('UnsupportedShapeError names the style that the stack was created with, and its first command works', async () => {
  const [otter, heron] = [ways['chat at a stack'], ways['messages at a stack']];
  const send = () =>
    ask({ ...heron, organisation: otter.organisation, host: otter.host, model: otter.model });
  const answer = await send();
  refused(answer, 'UnsupportedShapeError');
  const found = await explained(answer);
  expect(becauseOf(found)?.type).toBe('stack.created');
  await runFirst(found);
  const again = await send();
  expect(again.status, again.content).toBe(200);
  await explained(again);
  await positionOf(fleet.admin.call('PUT', `/stacks/${stacks.otter}/surface`, { surface: 'openai' }));
});

test('a change of only a tier’s models is named as its step’s event', async () => {
  const { tier, key } = await newcomer({});
  const { position } = await fleet.admin.call('PUT', `/tiers/${tier}`, {
    rank: 100 + made,
    models: ['echo-idle'],
  });
  await fleet.settle();
  const found = await explained(await chat({ port, key, model: 'echo-small' }));
  expect(found.steps.find(({ step }) => step === 'tier')?.because).toMatchObject({
    type: 'tier.set',
    position,
  });
});

describe('a hypothetical request is explained with the current use:', () => {
  const pool = ways['chat at the shared host'];
  const what = ['explain', '--org', 'birch', '--model', 'echo-small', '-o', 'json'];
  const asked = async (): Promise<Explanation> =>
    explanationSchema.parse(JSON.parse((await cli(...what)).out));
  const limitedTo = (limits: object) => limit({ ...pool, organisation: 'birch' }, limits);

  test('requests in this minute, and the age of the reports', async () => {
    await limitedTo({ requestsPerMinute: 1 });
    const send = () => ask(pool, { organisation: 'birch' });
    let found: Explanation | undefined;
    await until(async () => {
      // Repeats the request if a new minute has begun meanwhile.
      await send();
      found = await asked();
      return !found.verdict.served;
    }, 60_000);
    expect(found?.verdict).toMatchObject({ status: 429, type: 'InferenceRateLimitedError' });
    expect(found?.steps.find(({ step }) => step === 'requests')).toMatchObject({
      result: 'refused',
      text: '1 of 1 in this minute',
    });
    expect(found?.assumptions.join()).toMatch(/those that gateways published up to \d+\.\d s ago/);
    expect(found?.would.length).toBeGreaterThan(0);
  });

  test('requests in flight until they end', async () => {
    await limitedTo({ concurrency: 1 });
    const sim = fleet.nodes['pool-1'];
    sim.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
    const client = new AbortController();
    const api = `http://127.0.0.1:${port}/v1`;
    const inFlight = completion(api, keyOf('birch'), {}, { signal: client.signal }).catch(() => undefined);
    await until(async () => (await asked()).verdict.type === 'InferenceConcurrencyLimitedError', 60_000);
    const { items } = JSON.parse((await cli('explain', '--org', 'birch', '--list', '-o', 'json')).out) as {
      items: { model: string; host: string; status: number }[];
    };
    expect(items.find(({ model, host }) => model === 'echo-small' && host === 'shared')?.status).toBe(429);
    sim.setBehaviour(parseBehaviour({}));
    client.abort();
    await inFlight;
    await until(async () => (await asked()).verdict.served, 60_000);
  });
});

test('the key step names the key and its organisation by their display names', async () => {
  const { tier } = await newcomer({});
  const id = `named-${made}`;
  await fleet.admin.call('POST', '/organisations', { id, name: 'Acme Works', tier });
  const { id: keyId, value } = await fleet.admin.createKey(id, 'nightly batch');
  await fleet.settle();
  const found = await explained(await chat({ port, key: value, model: 'echo-small' }));
  const text = found.steps.find(({ step }) => step === 'key')?.text;
  expect(text).toContain(`nightly batch (${keyId}) of Acme Works (${id})`);
  const assumed = await cli('explain', '--org', id, '--model', 'echo-small', '-o', 'json');
  const { steps } = explanationSchema.parse(JSON.parse(assumed.out));
  expect(steps.find(({ step }) => step === 'key')?.text).toBe(`any valid key of Acme Works (${id})`);
});

test('on a terminal the page fits its width and highlights what decides; otherwise a step is one line', async () => {
  const { key } = await newcomer({ models: ['echo-idle'] });
  const id = (await chat({ port, key, model: 'echo-small' })).fields['x-request-id'] ?? '';
  const page = (options: object): Promise<CliRun> => cliWith(['explain', '--request', id], options);
  const esc = String.fromCharCode(27);
  const unpainted = (text: string): string => text.replaceAll(new RegExp(`${esc}\\[\\d+m`, 'g'), '');
  const [wide, narrow] = [await page({}), await page({ stdoutIsTerminal: true, columns: 80 })];
  expect(wide.out).not.toContain(esc);
  const decisive = wide.out.split('\n').filter((line) => line.includes('◀'));
  expect(decisive).toHaveLength(1);
  expect(decisive[0]).toMatch(/^ {2}⨉ tier .* does not include it +tier\.set \d+ operator {2}◀ decided it$/);
  expect(narrow.out).toContain(`${esc}[31m⨉${esc}[39m`);
  // Steps after the refusal were not checked, so their sign is dimmed like that of a skipped step.
  expect(narrow.out).toContain(`${esc}[2m`);
  for (const line of unpainted(narrow.out).split('\n'))
    if (!line.trim().startsWith('headgate ')) expect([...line].length, line).toBeLessThanOrEqual(80);
  const words = (text: string) => new Set(unpainted(text).split(/\s+/));
  for (const word of words(narrow.out))
    if (!['with', 'one', 'of:', '·'].includes(word)) expect(words(wide.out)).toContain(word);
});

test('a journal line is explained from stdin, and a person sees only their own organisation', async () => {
  const answer = await chat({ port, key: keyOf('acme'), model: 'no-such-model' });
  const exported = await cli('decisions', 'export', '--since', '1h');
  expect(exported.code).toBe(0);
  const line =
    exported.out.split('\n').find((each) => each.includes(answer.fields['x-request-id'] ?? '')) ?? '';
  const run = await cliWith(['explain', '--request', '-'], { stdin: `${line}\n` });
  expect(run.code).toBe(1);
  expect(run.out).toContain('refused  404 DedicatedOnlyModelError');
  await fleet.admin.call('PUT', '/organisations/birch/members/bea', { role: 'viewer' });
  const foreign = await cli('explain', '--as', 'bea', '--request', answer.fields['x-request-id'] ?? '');
  expect(foreign.code).toBe(4);
  const ofBea = 'explain --as bea --org birch --model echo-small -o json --host'.split(' ');
  const [own, missing] = [await cli(...ofBea, stacks.otter), await cli(...ofBea, stacks.missing)];
  expect(own.code).toBe(1);
  const text = (run: CliRun) =>
    run.out
      .replaceAll(stacks.otter, 'X')
      .replaceAll(stacks.missing, 'X')
      .replace(/[\d.]+ s ago/, '')
      .replace(/"at": \d+/, '');
  expect(text(own)).toBe(text(missing));
});

test('an organisation’s matrix agrees with the explanation of each of its cells', async () => {
  await positionOf(fleet.admin.call('PATCH', '/organisations/birch', { tier: 'Pro' }));
  const run = await cli('explain', '--org', 'birch', '--list', '-o', 'json');
  expect(run.code).toBe(0);
  const { items } = JSON.parse(run.out) as {
    items: { model: string; host: string; path: string; status: number; served: boolean }[];
  };
  // Expects the models of birch's tier, of its stacks and of its own nodes at each host, and no models of others.
  const { tier } = await fleet.admin.call('GET', '/organisations/birch');
  const { models } = await fleet.admin.call('GET', `/tiers/${tier}`);
  const own = await fleet.admin.call('GET', '/stacks?organisation=birch');
  const installed = (own['items'] as { models: string[] }[]).flatMap((stack) => stack.models);
  const hosts = new Set(items.map(({ host }) => host)).size;
  const shown = new Set(items.map(({ model }) => model));
  expect([...shown]).toEqual(expect.arrayContaining([...(models as string[]), ...installed]));
  expect([hosts, items.length]).toEqual([1 + (own['items'] as object[]).length, hosts * shown.size]);
  for (const { model, host, path, status, served } of items.slice(0, 6)) {
    const asked = ['--model', model, '--host', host, '--path', path];
    const one = await cli('explain', '--org', 'birch', ...asked, '-o', 'json');
    expect(JSON.parse(one.out).verdict).toMatchObject({ status, served });
    expect(one.code).toBe(served ? 0 : 1);
  }
});

test('a difference since a position is named with its event', async () => {
  const before = await fleet.admin.position();
  await fleet.admin.call('POST', '/nodes/birch-s1/drain?force=true');
  const line = `explain --org birch --model echo-small --host ${stacks.heron} --path messages -o json`;
  const argv = line.split(' ');
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
])('explaining something that does not exist exits 3: %s', async (flag, id, code) => {
  expect((await cli('explain', flag, id, '--model', 'echo-small')).code).toBe(code);
});

test('a past time is explained for every row of the command table, and one outside the log exits 3', async () => {
  const { id, key } = await newcomer({ models: ['echo-idle'] });
  const { id: keyId } = await fleet.key(id);
  await fleet.settle();
  const answer = await chat({ port, key, model: 'echo-small' });
  const request = answer.fields['x-request-id'] ?? '';
  const before = String((await explained(answer)).at);
  await fleet.key(id);
  await fleet.settle();
  const rows = readFileSync('docs/explain.md', 'utf8').split('\n');
  const documented = rows.filter((row) => row.startsWith('|')).join('\n');
  const ways = [
    `--request ${request}`,
    `--key ${keyId} --model echo-small`,
    `--org ${id} --model echo-small --host shared --path messages --prompt-tokens 5 --max-tokens 7`,
    '--visitor --model echo-small',
    `--org ${id} --list`,
    `--org ${id} --model echo-small --diff ${before}`,
  ];
  for (const way of ways.map((line) => line.split(' '))) {
    for (const option of way.filter((word) => word.startsWith('--'))) expect(documented).toContain(option);
    const run = await cli('explain', ...way, '--at', before, '-o', 'json');
    expect([0, 1], `${way.join(' ')}: ${run.err}`).toContain(run.code);
    const { at, position } = JSON.parse(run.out);
    expect(String(at ?? position), way.join(' ')).toBe(before);
    for (const outside of ['1000000', '2000-01-01T00:00:00Z'])
      expect((await cli('explain', ...way, '--at', outside)).code, way.join(' ')).toBe(3);
  }
});

describe('replay decide repeats recorded decisions:', () => {
  const replay = (lines: readonly string[], ...more: string[]): Promise<CliRun> => {
    const path = join(fleet.dir, 'recorded.jsonl');
    writeFileSync(path, `${lines.join('\n')}\n`);
    return cli('replay', 'decide', '--requests', path, '-o', 'json', ...more);
  };
  /**
   * Returns recorded decisions. Together with the requests of the earlier tests they cover most kinds of refusals and served
   * requests.
   */
  const exported = async (): Promise<string[]> => {
    const key = keyOf('acme');
    for (const model of ['echo-small', 'no-such-model']) await chat({ port, key, model });
    for (const path of ['/v1/nothing', '//v1/models', '/v1/models/echo-small/'])
      await call({ port, key, path });
    const { out, code } = await cli('decisions', 'export', '--since', '1h');
    expect(code).toBe(0);
    return out.trim().split('\n');
  };

  test('everything that the gateways recorded is decided alike', async () => {
    const lines = await exported();
    expect(lines.length).toBeGreaterThanOrEqual(2);
    const run = await replay(lines);
    expect(JSON.parse(run.out)).toEqual({ decided: lines.length, differ: 0, outside: 0 });
    expect(run.code).toBe(0);
  });

  test('a record that the rules decide differently is printed with its first step, and no other is', async () => {
    const { id, key } = await newcomer({ contextTokens: 4000 });
    expect((await chat({ port, key, model: 'echo-small' })).status).toBe(200);
    const lines = await exported();
    const index = lines.findIndex((line) => JSON.parse(line).organisation === id);
    const changed = { ...JSON.parse(lines[index] ?? ''), promptTokensMax: 1e9 };
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

  test('positions outside the log are counted, and a line that is not a record is named', async () => {
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

test('no file of a run contains a caller’s key, prompt, header or address', async () => {
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
  expect(files.some(({ name }) => name.endsWith('.records'))).toBe(true);
  const texts = [out, ...files.map((file) => readFileSync(join(file.parentPath, file.name), 'latin1'))];
  for (const secret of [canary, key, '203.0.113.77'])
    expect(
      texts.filter((text) => text.includes(secret)),
      secret,
    ).toEqual([]);
});

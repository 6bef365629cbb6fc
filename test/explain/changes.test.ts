/**
 * Tests explaining and re-deciding the decisions of gateways inside and outside a wave. Each decision is explained by the
 * state that its gateway had read, both while the change is open and after it has ended.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import { chat } from '../support/api.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';

let fleet: TestFleet;
let key = '';
beforeAll(async () => {
  fleet = await startFleet({ gateways: 2 });
  await fleet.admin.call('PUT', '/tiers/Waved', { models: ['echo-small'], rank: 50 });
  await fleet.admin.call('POST', '/organisations', { id: 'elm', name: 'Elm', tier: 'Waved' });
  key = (await fleet.key('elm')).value;
});
afterAll(() => fleet.close());

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken } });

/** Stages a change that replaces the models of the caller's tier. */
async function stage(models: readonly string[]): Promise<string> {
  const query = 'stage=true&waves=gateway-1,all&hold=1h&force=true';
  const { id } = await fleet.admin.call('PUT', `/tiers/Waved?${query}`, { models, rank: 50 });
  await fleet.settle();
  return String(id);
}

const endWith = async (id: string, end: 'withdraw' | 'advance'): Promise<void> => {
  await fleet.admin.call('POST', `/staged-changes/${id}/${end}`, end === 'withdraw' ? {} : undefined);
  await fleet.settle();
};

interface RequestResult {
  readonly status: number;
  readonly request: string;
}

async function ask(gateway: number, model = 'echo-small'): Promise<RequestResult> {
  const { status, fields } = await chat({ port: fleet.port(gateway), key, model });
  return { status, request: fields['x-request-id'] ?? '' };
}

async function explained(...argv: string[]): Promise<Explanation> {
  const run = await cli('explain', ...argv, '-o', 'json');
  if (run.out === '') throw new Error(run.err);
  return explanationSchema.parse(JSON.parse(run.out));
}
const tierIn = ({ steps }: Explanation) => steps.find(({ step }) => step === 'tier');

async function decidedAgain(requests: readonly string[], ...more: string[]): Promise<CliRun> {
  const exported = await cli('decisions', 'export', '--since', '1h');
  const lines = exported.out.split('\n').filter((line) => requests.some((request) => line.includes(request)));
  const path = join(fleet.dir, 'decisions.jsonl');
  writeFileSync(path, `${lines.join('\n')}\n`);
  return cli('replay', 'decide', '--requests', path, ...more, '-o', 'json');
}

test('a request refused in a wave is explained by its change while it is open and after it is withdrawn', async () => {
  const before = await ask(0);
  const id = await stage(['echo-embed']);
  const [inside, outside] = [await ask(0), await ask(1)];
  expect([before.status, inside.status, outside.status]).toEqual([200, 403, 200]);
  const whileOpen = await explained('--request', inside.request);
  const text = `Waved does not include it, by change ${id} (wave 1 of 2)`;
  expect(tierIn(whileOpen)).toMatchObject({
    ...{ result: 'refused', change: id, text },
    because: { type: 'change.staged', position: Number(id) },
  });
  expect(whileOpen).toMatchObject({ same: true, decisive: 'tier', before: { served: true, status: 200 } });
  expect(whileOpen.would).toEqual([`headgate change withdraw ${id}`]);
  const other = await explained('--request', outside.request);
  expect([other.same, other.verdict.served, tierIn(other)?.change]).toEqual([true, true, undefined]);
  await endWith(id, 'withdraw');
  expect((await ask(0)).status).toBe(200);
  const afterwards = await explained('--request', inside.request);
  expect(afterwards).toMatchObject({ same: true, verdict: { status: 403 }, would: [] });
  expect(tierIn(afterwards)).toEqual(tierIn(whileOpen));
  expect(afterwards.before).toEqual(whileOpen.before);
  expect((await cli('explain', '--request', inside.request)).out).toContain(text);
  const again = await decidedAgain([before.request, inside.request, outside.request]);
  expect([again.code, JSON.parse(again.out)]).toEqual([0, { decided: 3, differ: 0, outside: 0 }]);
});

test('a request served by a change in its wave is still explained so after the change is completed', async () => {
  const id = await stage(['echo-small', 'echo-large']);
  const [inside, outside] = [await ask(0, 'echo-large'), await ask(1, 'echo-large')];
  expect([inside.status, outside.status]).toEqual([200, 403]);
  await endWith(id, 'advance');
  const second = await ask(1, 'echo-large');
  await endWith(id, 'advance');
  const completed = await ask(1, 'echo-large');
  expect([second.status, completed.status]).toEqual([200, 200]);
  const texts: unknown[] = [];
  for (const { request } of [inside, outside, second, completed]) {
    const found = await explained('--request', request);
    expect(found.same).toBe(true);
    texts.push([tierIn(found)?.change, /\(wave.*\)/.exec(tierIn(found)?.text ?? '')?.[0]]);
  }
  expect(texts).toEqual([
    ...[
      [id, '(wave 1 of 2)'],
      [undefined, undefined],
    ],
    ...[
      [id, '(wave 2 of 2)'],
      [undefined, undefined],
    ],
  ]);
  const last = await explained('--request', completed.request);
  expect(tierIn(last)?.because?.type).toBe('tier.set');
  // Decides the requests again at the position of the first wave. Each record names its gateway, so it gets the state inside
  // or outside the wave.
  const { at } = await explained('--request', inside.request);
  const again = await decidedAgain([inside.request, outside.request, completed.request], '--at', String(at));
  const lines = again.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toEqual([
    expect.objectContaining({ req: completed.request, step: 'tier' }),
    { decided: 3, differ: 1, outside: 0 },
  ]);
});

test('a hypothetical request is explained outside the wave, or inside with --wave, now and in the past', async () => {
  const what = ['--org', 'elm', '--model', 'echo-large'];
  const id = await stage(['echo-small']);
  const [outside, inside] = [await explained(...what), await explained(...what, '--wave')];
  expect([outside.verdict.status, inside.verdict.status]).toEqual([200, 403]);
  expect(outside.assumptions.join()).toContain(`the change ${id} has not reached its gateway; --wave`);
  expect(inside.assumptions.join()).toContain('the gateway is in a wave of the open change');
  expect(tierIn(inside)?.change).toBe(id);
  await endWith(id, 'withdraw');
  expect((await explained(...what, '--wave')).verdict.status).toBe(200);
  const past = await explained(...what, '--wave', '--at', id);
  expect([past.verdict.status, tierIn(past)?.change]).toEqual([403, id]);
  const refused = await cli('explain', '--request', `req_${'0'.repeat(32)}`, '--wave');
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('a recorded request')]);
  expect((await cli('explain', '--org', 'elm', '--list', '--wave')).code).toBe(2);
});

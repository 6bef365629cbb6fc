/** Tests which commands can be staged. A refusal must name the next step, and nothing may be written. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkAnswer } from '../../test/support/admin-answers.ts';
import { chat } from '../../test/support/api.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { scaledMs } from '../../test/support/budget.ts';
import { operatorToken, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { runCli } from '../../test/support/run-cli.ts';
import { readStaging } from './change-routes.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet();
  await call('PUT', '/models/echo-9', { family: 'echo' });
  await call('PUT', '/tiers/Staged', { models: ['echo-9'], concurrency: 2 });
});
afterAll(() => fleet.close());

async function call(method: string, path: string, body?: unknown) {
  const response = await askAdmin(fleet.controlPlane.admin, path, { method, body });
  const answer = (await response.json()) as Record<string, unknown>;
  if (response.ok) checkAnswer(method, path, response.status, answer);
  return { status: response.status, answer };
}

const cli = async (...argv: string[]): Promise<string> => {
  const env = { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken };
  return (await runCli(argv, { env })).out;
};

const findings = async () => {
  const { answer } = await call('GET', '/doctor?only=changes');
  const found = (answer['checks'] as Record<string, unknown>[]).filter(({ level }) => level !== 'ok');
  return found.map(({ code, object, text }) => ({ code, object, text }));
};

const limits = { models: [], concurrency: 1 };
const withdrawOpen = async () => {
  const { answer } = await call('GET', '/staged-changes');
  const [first] = answer['items'] as { id: string; state: string }[];
  if (first?.state === 'open') await call('POST', `/staged-changes/${first.id}/withdraw`, {});
};

test.each([
  ['waves=one,gw-unknown', 'names gw-unknown, which does not report'],
  ['waves=one,50%25,10%25', 'is not larger than the last one'],
  ['waves=all,one', 'comes after the wave all'],
  ['waves=0%25', 'above 0%'],
  ['hold=never', 'must be a duration'],
  ['watch=refusal=1', 'must have the form refusals=1'],
])('a staged change with %s is refused, and nothing is written', async (query, message) => {
  const { status, answer } = await call('PUT', `/tiers/Staged?stage=true&${query}`, limits);
  expect([status, JSON.stringify(answer)]).toEqual([400, expect.stringContaining(message)]);
  expect(JSON.stringify(answer)).toContain('"next"');
  const { answer: changes } = await call('GET', '/staged-changes');
  expect(changes['items']).toEqual([]);
});

test('commands that act at once cannot be staged, and waves require staging', async () => {
  const { status, answer } = await call('POST', '/organisations?stage=true', { id: 'elm', name: 'Elm' });
  expect([status, JSON.stringify(answer)]).toEqual([400, expect.stringContaining('cannot be staged')]);
  const alone = await call('PUT', '/tiers/Staged?waves=one', limits);
  expect([alone.status, JSON.stringify(alone.answer)]).toEqual([400, expect.stringContaining('--stage')]);
});

test('while a change is open, another change and conflicting commands are refused by its name', async () => {
  const { answer: staged } = await call('PUT', '/tiers/Staged?stage=true&hold=1h', limits);
  const { id } = staged;
  const second = await call('PUT', '/tiers/Other?stage=true', limits);
  expect([second.status, JSON.stringify(second.answer)]).toEqual([
    409,
    expect.stringContaining(`the change ${id} is open`),
  ]);
  const same = await call('PUT', '/tiers/Staged', { models: '*' });
  expect([same.status, JSON.stringify(same.answer)]).toEqual([
    409,
    expect.stringContaining(`the change ${id} also writes tier Staged`),
  ]);
  expect((await call('PUT', '/tiers/Other', { models: [], concurrency: 3 })).status).toBe(200);
  const { answer: before } = await call('GET', '/tiers/Staged');
  expect(before).toMatchObject({ concurrency: 2 });
  await withdrawOpen();
  expect((await call('PUT', '/tiers/Staged', { models: ['echo-9'], concurrency: 2 })).status).toBe(200);
});

test('a completed change is in force, and is undone like any commit', async () => {
  const { answer: staged } = await call('PUT', '/tiers/Staged?stage=true&waves=all&hold=1h', limits);
  const late = await call('POST', `/staged-changes/${staged['id']}/advance`, { inWave: 2 });
  expect([late.status, JSON.stringify(late.answer)]).toEqual([
    409,
    expect.stringContaining('is in wave 1, not in wave 2'),
  ]);
  const { answer } = await call('POST', `/staged-changes/${staged['id']}/advance`, { inWave: 1 });
  expect(answer).toMatchObject({ state: 'completed', wave: 1 });
  expect((await call('GET', '/tiers/Staged')).answer).toMatchObject({ concurrency: 1 });
  const again = await call('POST', `/staged-changes/${staged['id']}/withdraw`, {});
  expect([again.status, JSON.stringify(again.answer)]).toEqual([
    409,
    expect.stringContaining('is completed'),
  ]);
  const undone = await call('POST', `/events/${String(answer['position'])}/undo`);
  expect(undone.status).toBe(200);
  expect((await call('GET', '/tiers/Staged')).answer).toMatchObject({ concurrency: 2 });
});

test('a change whose rows were removed meanwhile does not continue, and gives the reason', async () => {
  await call('PUT', '/models/echo-8', { family: 'echo' });
  const { answer: staged } = await call('PUT', '/pool/models/echo-8?stage=true&hold=1h');
  await call('DELETE', '/models/echo-8');
  const { answer: shown } = await call('GET', `/staged-changes/${staged['id']}`);
  expect(shown).toMatchObject({ impossible: expect.stringContaining('no model echo-8') as string });
  const { status, answer } = await call('POST', `/staged-changes/${staged['id']}/advance`);
  expect([status, JSON.stringify(answer)]).toEqual([409, expect.stringContaining('cannot continue')]);
  expect(await findings()).toEqual([
    { code: 'HG9001', object: staged['id'], text: expect.stringContaining('it cannot be completed: ') },
  ]);
  await withdrawOpen();
  expect(await findings()).toEqual([]);
});

test('an automatically withdrawn change shows its reason in the list and in doctor', async () => {
  const query = 'stage=true&waves=all&hold=1h&watch=refusals=0,least=1';
  const { value: key } = await fleet.key('cedar');
  const { answer: staged } = await call('PUT', `/tiers/Staged?${query}`, limits);
  const seen = async () => (await call('GET', `/staged-changes/${staged['id']}`)).answer;
  // Each gateway report counts the requests since the last one, and reports that began before the wave are ignored. So keep
  // sending requests.
  await expect
    .poll(
      async () => {
        await chat({ port: fleet.port(), key, model: 'no-such-model' });
        return (await seen())['state'];
      },
      { timeout: scaledMs(60_000), interval: 200 },
    )
    .toBe('withdrawn');
  const reason = '100.0% refused in the wave, 0.0% usual';
  expect(await seen()).toMatchObject({ reason });
  expect(await findings()).toEqual([
    { code: 'HG9002', object: staged['id'], text: `it was withdrawn within the last hour: ${reason}` },
  ]);
}, 90_000);

test('nothing is staged while a gateway does not follow the log, and the refusal names it', () => {
  const gateways = [{ report: { name: 'gateway-7', halted: 'the fold halted at commit 9' } }];
  const board = { gateways: () => gateways } as unknown as Parameters<typeof readStaging>[0]['board'];
  expect(() => readStaging({ board }, { stage: 'true' })).toThrow(
    'the gateway gateway-7 does not follow the log',
  );
  expect(readStaging({ board }, {})).toBeUndefined();
});

test('while a change is open, rows and limits are shown with their values in the wave and the change’s id', async () => {
  await call('POST', '/organisations', { id: 'waved', name: 'Waved', tier: 'Staged' });
  const { answer: staged } = await call('PUT', '/tiers/Staged?stage=true&hold=1h', limits);
  const change = { change: staged['id'], wave: 1, waves: 4 };
  const { answer: tier } = await call('GET', '/tiers/Staged?wave=true');
  expect(tier).toMatchObject({ concurrency: 2, inWave: { ...change, row: { concurrency: 1, models: [] } } });
  expect((await call('GET', '/tiers/Staged')).answer).not.toHaveProperty('inWave');
  const { answer: past } = await call('GET', `/tiers/Staged?wave=true&at=${String(staged['position'])}`);
  expect(past).toEqual(tier);
  const { answer: use } = await call('GET', '/organisations/waved/limits');
  expect(use).toMatchObject({
    concurrency: { limit: 2 },
    inWave: { ...change, concurrency: 1, tokens: null },
  });
  const shown = await cli('tier', 'get', 'Staged', '--wave');
  expect(shown).toMatch(/^inWave\.row\.concurrency +1$/m);
  expect(await cli('limits', 'show', '--org', 'waved')).toContain(
    `no limit requests, 1 in flight, no limit pool tokens: change ${staged['id']} (wave 1 of 4)`,
  );
  await withdrawOpen();
  expect((await call('GET', '/tiers/Staged?wave=true')).answer).not.toHaveProperty('inWave');
  expect((await call('GET', '/organisations/waved/limits')).answer).not.toHaveProperty('inWave');
});

test('a row that the change removes is null in its wave', async () => {
  await call('PUT', '/models/echo-7', { family: 'echo' });
  await call('DELETE', '/models/echo-7?stage=true&hold=1h');
  const { answer } = await call('GET', '/models/echo-7?wave=true');
  expect(answer).toMatchObject({ id: 'echo-7', inWave: { row: null } });
  await withdrawOpen();
});

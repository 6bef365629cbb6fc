/**
 * Tests other operations while a change is open. Backup and restore must include the change, an export must contain the state
 * without it, and only the change itself may revert it. Commands that cannot be staged must be refused with a reason before
 * anything is written.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Change } from '../../schemas/events/changes.ts';
import { scaledMs } from '../support/budget.ts';
import { operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';
import { nameOf, StagedFleet, statusOf, taken } from './staged-fleet.ts';

const fleet = new StagedFleet();
beforeAll(() => fleet.open(1, 2), scaledMs(120_000));
afterAll(() => fleet.close());

function headgate(line: string, more: Readonly<Record<string, string>> = {}): Promise<CliRun> {
  const { admin } = [...fleet.planes.values()][0]?.ready ?? { admin: '' };
  const env = { HEADGATE_ADMIN: admin, HEADGATE_TOKEN: operatorToken, HEADGATE_LOG: fleet.logUrl, ...more };
  return runCli(line.split(' '), { env, cwd: fleet.dir });
}
async function answered<Answer>(line: string): Promise<Answer> {
  const run = await headgate(`${line} -o json`);
  expect([run.code, run.err]).toEqual([0, expect.not.stringContaining('error')]);
  return JSON.parse(run.out) as Answer;
}
const stage = (line: string) => answered<Change & { readonly position: number }>(`${line} --stage --hold 1h`);
const position = () => fleet.operator().position();
/** Returns the statuses from the first gateway, which is in the first wave, and from the second. */
const statuses = () =>
  Promise.all([1, 2].map((n) => statusOf(fleet.gateways.get(nameOf(n))?.ready.api ?? '', fleet.key)));
const are = (...wanted: number[]) => until(async () => String(await statuses()) === String(wanted));
const take = 'tier set Wide --models echo-small';
const firstWave = '--waves gw-01,all';

async function areRefused(refusals: readonly [line: string, code: number, text: RegExp][]): Promise<void> {
  for (const [line, code, text] of refusals) {
    const run = await headgate(line);
    expect([line, run.code, run.err]).toEqual([line, code, expect.stringMatching(text)]);
  }
}

test('commands that cannot be staged are refused with the reason, and nothing is written', async () => {
  await headgate('model set echo-new --family echo');
  const { id } = await stage('pool install echo-new');
  const keys = join(fleet.dir, 'keys.yaml');
  writeFileSync(keys, 'version: 1\nkeys:\n  - {id: k, organisation: acme}\n');
  const organisations = join(fleet.dir, 'organisations.yaml');
  writeFileSync(organisations, 'version: 1\norganisations:\n  - {id: elm, name: Elm}\n');
  const before = await position();
  await areRefused([
    [`${take} --stage`, 6, new RegExp(`the change ${id} is open, and only one may be open at a time`)],
    [`undo ${before} --yes`, 6, /change\.advanced: a single wave cannot be reversed; withdraw the change/],
    ['change advance 9999', 3, /there is no change 9999/],
    [`apply -f ${keys} --stage`, 2, /keys/],
  ]);
  expect(await position()).toBe(before);
  await answered(`change withdraw ${id}`);
  const after = await position();
  await areRefused([
    [`${take} --stage --waves gw-01,gw-77`, 2, /the wave gw-77 names gw-77, which does not report/],
    [`${take} --stage --waves one,50%,10%`, 2, /the wave 10% is not larger than the last one/],
    [`${take} --stage --waves all,one`, 2, /the wave one comes after the wave all/],
    [`${take} --stage --hold never`, 2, /must be a duration/],
    [`${take} --waves one`, 2, /--stage/],
    [
      `apply -f ${organisations} --stage`,
      2,
      /organisation\.set cannot be staged, because it takes effect everywhere at once/,
    ],
    [`change withdraw ${id}`, 6, new RegExp(`the change ${id} is withdrawn`)],
  ]);
  expect(await position()).toBe(after);
});

test('a fleet file is staged as a whole, and its waves are printed, even in a dry run', async () => {
  const exported = (await headgate('export')).out;
  const path = join(fleet.dir, 'fleet.yaml');
  writeFileSync(path, exported.replace(/( +)- echo-large\n/, ''));
  const apply = `apply -f ${path} --stage --waves gw-01,all --hold 1h`;
  const before = await position();
  const would = await headgate(`${apply} --dry-run`);
  expect([would.code, would.out, would.err]).toEqual([
    ...[0, expect.stringMatching(/^change \d+ would be open: wave 1 of 2\n {2}\* wave 1: gw-01\n/)],
    '',
  ]);
  expect(await position()).toBe(before);
  const run = await headgate(apply);
  expect([run.code, run.out]).toEqual([0, expect.stringMatching(/^change \d+ open: wave 1 of 2\n/)]);
  await are(403, 200);
  const id = /\d+/.exec(run.out)?.[0];
  const note = `change ${id} is in force at gw-01 only\n`;
  await until(async () => (await headgate('status')).out.includes(note));
  expect((await headgate('doctor --only changes')).err).toBe(note);
  expect(await answered(`change withdraw ${id}`)).toMatchObject({ state: 'withdrawn' });
  expect(await answered(`${apply} --atomic`)).toMatchObject({ state: 'open', position: await position() });
  await answered(`change withdraw ${await position()}`);
  await are(200, 200);

  const after = await position();
  writeFileSync(path, exported);
  for (const line of [apply, 'tier set Wide --models echo-small,echo-large --stage'])
    expect([line, await headgate(line)]).toEqual([
      line,
      expect.objectContaining({ code: 0, out: expect.stringMatching(/unchanged/) }),
    ]);
  expect(await position()).toBe(after);
});

test('repeating a stage command returns its own change, whatever was staged later', async () => {
  const once = `${take} --command-id stage-once-only`;
  const { id } = await stage(once);
  await answered(`change withdraw ${id}`);
  const other = await stage(take);
  expect(await stage(once)).toMatchObject({ id, state: 'withdrawn', repeated: true });
  await answered(`change withdraw ${other.id}`);
});

test('a change whose model was removed meanwhile does not continue, says so, and is withdrawn by hand', async () => {
  const { id } = await stage('pool install echo-new');
  expect((await headgate('model delete echo-new --yes')).code).toBe(0);
  const shown = await headgate(`change show ${id}`);
  expect(shown.out).toMatch(/it cannot be completed/);
  const run = await headgate(`change advance ${id}`);
  expect([run.code, run.err]).toEqual([6, expect.stringMatching(/cannot continue: .*no model echo-new/)]);
  expect((await answered<Change>(`change withdraw ${id}`)).state).toBe('withdrawn');
});

test('an export omits the open change, but a restored backup contains it', async () => {
  const exported = (await headgate('export')).out;
  const { id } = await stage(`${take} ${firstWave}`);
  await are(403, 200);
  expect((await headgate('export')).out).toBe(exported);
  const digests = (await fleet.operator().call('GET', '/status')).digests as Record<string, string>;
  await answered(`backup ${join(fleet.dir, 'copy')} --log ${fleet.logUrl} --no-usage`);

  const logUrl = `sqlite:${join(fleet.dir, 'log-backup')}`;
  const restore = `backup restore ${join(fleet.dir, 'copy')} --log ${logUrl} --data ${join(fleet.dir, 'cp-again')} --allow-unsigned --yes`;
  const run = await headgate(restore, { HEADGATE_LOG: logUrl });
  expect([run.code, run.err]).toEqual([0, expect.not.stringContaining('error')]);
  const other = new ProcessFleet({ logUrl });
  try {
    const plane = await other.startPlane();
    const admin = other.admin(plane);
    expect(await admin.call('GET', `/staged-changes/${id}`)).toMatchObject({ state: 'open', wave: 1 });
    const restored = (await admin.call('GET', '/status')).digests as Record<string, string>;
    for (const table of ['tier', 'tier_model', 'change', 'overlay'])
      expect([table, restored[table]]).toEqual([table, digests[table]]);
    const { ready } = await other.startGateway(nameOf(1));
    await until(async () => (await statusOf(ready.api, fleet.key)) === 403);
  } finally {
    await other.close();
  }
  await answered(`change withdraw ${id}`);
  await are(200, 200);
});

test('recorded refusals of an open change are decided again alike, and a completed one applies and is undone', async () => {
  const { id } = await stage(`${take} ${firstWave}`);
  await are(403, 200);
  const decisions = await headgate('decisions export');
  const path = join(fleet.dir, 'decisions.jsonl');
  writeFileSync(path, decisions.out);
  expect(decisions.out).toContain(`"change":"${id}"`);
  const again = await headgate(`replay decide --requests ${path} --at-recorded`);
  expect([again.code, again.out]).toEqual([0, expect.stringMatching(/^[1-9]\d* decisions .* 0 differ$/m)]);

  await answered(`change advance ${id}`);
  await are(403, 403);
  const done = await answered<Change & { position: number }>(`change advance ${id}`);
  expect(done.state).toBe('completed');
  await are(403, 403);
  expect((await headgate(`undo ${done.position} --yes`)).code).toBe(0);
  await are(200, 200);
  expect(await fleet.operator().call('GET', '/tiers/Wide')).toMatchObject({
    models: expect.arrayContaining([taken]),
  });
});

/**
 * What else there is while a change is open: backup and restore have it, an export has the state without it, only itself takes it
 * back, and what cannot be staged is refused with a reason, before anything is written.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Change } from '../../schemas/changes.ts';
import { scaledMs } from '../support/budget.ts';
import { type CliRun, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { nameOf, StagedFleet, statusOf, taken } from './staged-fleet.ts';

const fleet = new StagedFleet();
beforeAll(() => fleet.open(1, 2), scaledMs(120_000));
afterAll(() => fleet.close());

function headgate(
  line: string,
  on: { readonly admin: string } = [...fleet.planes.values()][0]!.ready,
): Promise<CliRun> {
  return fleet.cli(line.split(' '), { HEADGATE_ADMIN: on.admin });
}
async function answered<Answer>(line: string): Promise<Answer> {
  const run = await headgate(`${line} -o json`);
  expect([run.code, run.stderr]).toEqual([0, expect.not.stringContaining('error')]);
  return JSON.parse(run.stdout) as Answer;
}
const stage = (line: string) => answered<Change & { readonly position: number }>(`${line} --stage --hold 1h`);
const position = () => fleet.operator().position();
/** By the first gateway, which is the first wave, and by the other. */
const statuses = () =>
  Promise.all([1, 2].map((n) => statusOf(fleet.gateways.get(nameOf(n))?.ready.api ?? '', fleet.key)));
const are = (...wanted: number[]) => until(async () => String(await statuses()) === String(wanted));
const take = 'tier set Wide --models echo-small';
const firstWave = '--waves gw-01,all';

test('what cannot be staged is refused with its reason, and nothing is written', async () => {
  await headgate('model set echo-new --family echo');
  const { id } = await stage('pool install echo-new');
  const keys = join(fleet.dir, 'keys.yaml');
  writeFileSync(keys, 'version: 1\nkeys:\n  - {id: k, organisation: acme}\n');
  const organisations = join(fleet.dir, 'organisations.yaml');
  writeFileSync(organisations, 'version: 1\norganisations:\n  - {id: elm, name: Elm}\n');
  const before = await position();
  const refusals: [line: string, code: number, text: RegExp][] = [
    [`${take} --stage`, 6, new RegExp(`the change ${id} is open, and one is at a time`)],
    [`undo ${before} --yes`, 6, /change\.advanced: a wave is not taken back alone; withdraw the change/],
    ['change advance 9999', 3, /there is no change 9999/],
    [`apply -f ${keys} --stage`, 2, /keys/],
  ];
  for (const [line, code, text] of refusals)
    expect([line, await headgate(line)]).toEqual([
      line,
      expect.objectContaining({ code, stderr: expect.stringMatching(text) }),
    ]);
  await answered(`change withdraw ${id}`);
  const after = await position();
  const alone: [line: string, code: number, text: RegExp][] = [
    [`${take} --stage --waves gw-01,gw-77`, 2, /the wave gw-77 names gw-77, which is no gateway/],
    [`${take} --stage --waves one,50%,10%`, 2, /the wave 10% is no larger than one before it/],
    [`${take} --stage --waves all,one`, 2, /the wave one comes after all gateways/],
    [`${take} --stage --hold never`, 2, /must be a duration/],
    [`${take} --waves one`, 2, /--stage/],
    [
      `apply -f ${organisations} --stage`,
      2,
      /organisation\.set cannot be staged: it acts at once, everywhere/,
    ],
    [`change withdraw ${id}`, 6, new RegExp(`the change ${id} is withdrawn`)],
  ];
  for (const [line, code, text] of alone)
    expect([line, await headgate(line)]).toEqual([
      line,
      expect.objectContaining({ code, stderr: expect.stringMatching(text) }),
    ]);
  expect(await position()).toBe(after);
});

test('a change whose model was removed meanwhile does not continue, says so, and is withdrawn by hand', async () => {
  const { id } = await stage('pool install echo-new');
  expect((await headgate('model delete echo-new --yes')).code).toBe(0);
  const shown = await headgate(`change show ${id}`);
  expect(shown.stdout).toMatch(/it cannot be completed/);
  const run = await headgate(`change advance ${id}`);
  expect([run.code, run.stderr]).toEqual([6, expect.stringMatching(/cannot continue: .*no model echo-new/)]);
  expect((await answered<Change>(`change withdraw ${id}`)).state).toBe('withdrawn');
});

test('an export has the state without the open change; a backup and a snapshot are restored with it open', async () => {
  const exported = (await headgate('export')).stdout;
  const { id, position: at } = await stage(`${take} ${firstWave}`);
  await are(403, 200);
  expect((await headgate('export')).stdout).toBe(exported);
  const digests = (await fleet.operator().call('GET', '/status')).digests as Record<string, string>;
  await answered(`backup ${join(fleet.dir, 'copy')} --log ${fleet.logUrl} --no-usage`);
  await answered(`snapshot save ${join(fleet.dir, 'state.db')}`);

  const others = { backup: 'log-2', snapshot: 'log-3' };
  const restores = {
    backup: `backup restore ${join(fleet.dir, 'copy')} --log sqlite:${join(fleet.dir, 'log-2')} --allow-unsigned --yes`,
    snapshot: `snapshot restore ${join(fleet.dir, 'state.db')} --new-log --yes`,
  };
  for (const from of ['backup', 'snapshot'] as const) {
    const logUrl = `sqlite:${join(fleet.dir, others[from])}`;
    const run = await fleet.cli(restores[from].split(' '), { HEADGATE_LOG: logUrl });
    expect([from, run.code, run.stderr]).toEqual([from, 0, expect.not.stringContaining('error')]);
    const other = new ProcessFleet({ logUrl });
    try {
      const plane = await other.startPlane();
      const admin = other.admin(plane);
      expect(await admin.call('GET', `/staged-changes/${id}`)).toMatchObject({ state: 'open', wave: 1 });
      const restored = (await admin.call('GET', '/status')).digests as Record<string, string>;
      for (const table of ['tier', 'tier_model', 'change', 'overlay'])
        expect([from, table, restored[table]]).toEqual([from, table, digests[table]]);
      const first = await other.startGateway(nameOf(1));
      const second = await other.startGateway(nameOf(2));
      const wanted = [403, 200];
      for (const [n, { ready }] of [first, second].entries())
        await until(async () => [wanted[n], 404, 503].includes(await statusOf(ready.api, fleet.key)));
    } finally {
      await other.close();
    }
  }
  await answered(`change withdraw ${id}`);
  await are(200, 200);
  expect(at).toBe(Number(id));
});

test('what was refused by an open change is decided again as it was, and a completed change is undone', async () => {
  const { id } = await stage(`${take} ${firstWave}`);
  await are(403, 200);
  const decisions = await headgate('decisions export');
  const path = join(fleet.dir, 'decisions.jsonl');
  writeFileSync(path, decisions.stdout);
  expect(decisions.stdout).toContain(`"change":"${id}"`);
  const again = await headgate(`replay decide --requests ${path} --at-recorded`);
  expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/ 0 differ$/m)]);

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

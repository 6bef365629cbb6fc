/**
 * Applies a large fleet file with real processes. The command is interrupted and continued, and the exported result is
 * applied to an empty log.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { runs, scaledMs } from '../support/budget.ts';
import { largeFleet } from '../support/large-fleet.ts';
import { operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { until } from '../support/until.ts';

const fleet = new ProcessFleet();
const other = new ProcessFleet();
afterAll(() => Promise.all([fleet.close(), other.close()]));

/** Enough organisations for about seven commits. More would only make the test slower. */
const organisations = Math.min(10_000, runs({ fast: 3000, full: 3000 }));
/** Longest wait for the first part to be applied, in ms. Before that, the file must be parsed, compared and sent. */
const partMs = 100_000;
const file = join(fleet.dir, 'fleet.json');
const toExport = join(other.dir, 'fleet.json');

const environment = (plane: Plane) => ({
  ...process.env,
  ...{ HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken, NO_COLOR: '1' },
});

function applying(plane: Plane): ChildProcess {
  return spawn(process.execPath, [binary, 'apply', '-f', file, '-q'], {
    env: environment(plane),
    stdio: 'ignore',
  });
}

/** Exports the fleet to a file, because the output is too long for a test's pipe. */
async function exported(of: ProcessFleet, plane: Plane): Promise<Fleet> {
  const path = join(of.dir, 'exported.json');
  const out = openSync(path, 'w');
  const child = spawn(process.execPath, [binary, 'export', '-o', 'json'], {
    env: environment(plane),
    stdio: ['ignore', out, 'inherit'],
  });
  const [code] = await once(child, 'exit');
  closeSync(out);
  expect(code).toBe(0);
  return JSON.parse(readFileSync(path, 'utf8')) as Fleet;
}

const positionOf = async (plane: Plane): Promise<number> =>
  (await fleet.admin(plane).call('GET', '/status')).position;

test(
  'a file with thousands of organisations is applied even if control plane and CLI are killed meanwhile',
  async () => {
    writeFileSync(file, JSON.stringify(largeFleet(organisations)));
    const killed = await fleet.startPlane();
    const first = applying(killed);
    await until(async () => (await positionOf(killed)) >= 2, partMs);
    await killed.end('SIGKILL');
    const [code] = await once(first, 'exit');
    expect(code).not.toBe(0);

    const plane = await fleet.startPlane();
    const left = await positionOf(plane);
    expect(left).toBeGreaterThanOrEqual(2);
    const second = applying(plane);
    await until(async () => (await positionOf(plane)) > left, partMs);
    second.kill('SIGKILL');
    const third = await fleet.cli(['apply', '-f', file, '-o', 'name'], { HEADGATE_ADMIN: plane.ready.admin });
    expect(third.code, third.stderr).toBe(0);
    const again = await fleet.cli(['diff', '-f', file], { HEADGATE_ADMIN: plane.ready.admin });
    expect(again).toMatchObject({ code: 0, stdout: '' });

    const document = await exported(fleet, plane);
    expect(document.organisations).toHaveLength(organisations);
    writeFileSync(toExport, JSON.stringify(document));
    const empty = await other.startPlane();
    const env = { HEADGATE_ADMIN: empty.ready.admin };
    const atomic = await other.cli(['apply', '-f', toExport, '--atomic'], env);
    expect(atomic.code).toBe(2);
    expect(atomic.stderr).toMatch(/at most 921600 are allowed; in parts it takes \d+ commits/);
    const applied = await other.cli(['apply', '-f', toExport, '-o', 'name'], env);
    expect(applied.code, applied.stderr).toBe(0);
    expect(await exported(other, empty)).toEqual(document);
  },
  scaledMs(400_000),
);

/**
 * Tests a node that accepts requests and never answers, although it passes its health checks. `doctor` and the node list must
 * name it.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { completion } from '../support/process-fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
});
afterAll(() => fleet.close());

interface DoctorFindings {
  readonly checks: readonly { readonly code: string; readonly object?: string; readonly text: string }[];
}

test('doctor and the node list name a node that hangs until it answers', async () => {
  const node = fleet.nodes['pool-1'];
  await fleet.admin.call('POST', '/organisations', { id: 'asker', name: 'Asker', tier: 'Platinum' });
  const { value: key } = await fleet.key('asker');
  await fleet.settle();
  const ask = (signal?: AbortSignal): Promise<{ status: number }> =>
    completion(fleet.gateways[0]?.api ?? '', key, {}, signal && { signal });
  const named = async (): Promise<readonly [boolean, string | undefined]> => {
    const { checks } = (await fleet.admin.call('GET', '/doctor')) as unknown as DoctorFindings;
    const { reason } = (await fleet.admin.call('GET', '/nodes/pool-1')) as unknown as { reason?: string };
    return [checks.some(({ code, object }) => code === 'HG5007' && object === 'pool-1'), reason];
  };
  expect(await named()).toEqual([false, undefined]);
  node?.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
  await until(async () => {
    await ask(AbortSignal.timeout(1000)).catch(() => undefined);
    const [isNamed, reason] = await named();
    return isNamed && /^does not answer the requests of /.test(reason ?? '');
  }, 60_000);
  node?.setBehaviour(parseBehaviour({}));
  expect((await ask()).status).toBe(200);
  await until(async () => (await named()).every((each) => each === false || each === undefined));
}, 120_000);

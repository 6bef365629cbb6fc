/** Tests limits that all visitors share as if they were one organisation, at the playground's own listener. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { openCall, post, wholeAnswer } from './page-calls.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({
    fleet: (urls) => {
      const spec = specFleet(urls);
      const second = { id: 'pool-2', url: urls['birch-s1'], dialect: 'vllm' as const };
      return { ...spec, pool: { ...spec.pool, nodes: [...(spec.pool?.nodes ?? []), second] } };
    },
    gateway: { play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
  });
});
afterAll(() => fleet.close());

test('bad answers that visitors may have caused do not take a node from others, however many they are', async () => {
  const spoilt = fleet.nodes['pool-1'];
  spoilt.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'huge-event', bytes: 20_000_000 } }] }));
  const visitors = 60;
  for (let n = 0; n < visitors; n++) {
    const address = `203.0.113.${n}`;
    const { cookie } = await post(new URL('/api/visitor', fleet.gateways[0]?.play), {}, { address });
    const turn = { model: 'echo-small', stream: true, messages: [{ role: 'user', content: `hello ${n}` }] };
    const url = new URL('/api/chat', fleet.gateways[0]?.play);
    await wholeAnswer(await openCall(url, turn, { address, cookie })).catch(() => undefined);
  }
  // Each visitor prefers one of the two nodes, and about thirty visitors prefer the spoilt one.
  expect(spoilt.stats().faults).toBeGreaterThanOrEqual(10);
  spoilt.setBehaviour(parseBehaviour({}));
});

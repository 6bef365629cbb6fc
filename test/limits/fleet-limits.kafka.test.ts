/**
 * Tests fleet-wide limits over four gateways on Kafka, also during an outage of Kafka. The nightly run repeats the tests with
 * two gateways.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { post, turnsOf } from '../play/page-calls.ts';
import { runs } from '../support/budget.ts';
import { type GatewayProcess, metric, model } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { everyCase, LimitedFleet } from './fleet-limits.ts';

let kafka: Kafka;
let fleet: LimitedFleet;
beforeAll(async () => {
  kafka = await startKafka();
  fleet = new LimitedFleet({ logUrl: kafka.url, timeoutMs: 60_000 });
  await fleet.begin(2);
}, 120_000);
afterAll(async () => {
  await fleet?.close();
  await kafka?.stop();
});

const log = { leave: () => kafka.freeze(1), come: () => kafka.thaw(1) };

test.each([2, 4].slice(-runs({ fast: 1, full: 1 })))(
  'Limits 1, Limits 2: %i gateways on Kafka apply a limit once, in bursts, streams, kills and an outage',
  async (gateways) => {
    await fleet.growTo(gateways);
    await everyCase(fleet, log);
  },
);

test('a visitor is served and counted while Kafka is frozen', async () => {
  await fleet.allowVisitors();
  const gateway = await fleet.gateway('playground', ['--play-port', '0', '--trusted-proxies', '127.0.0.1']);
  const { play } = gateway.ready as GatewayProcess['ready'] & { readonly play: string };
  const from = { address: '203.0.113.1' };
  const visitor = (cookie?: string) => post(new URL('/api/visitor', play), {}, { ...from, cookie });
  await until(async () => (await visitor()).status === 200);
  kafka.freeze(1);
  try {
    await until(async () => (await metric(gateway, 'headgate_limit_feed_age_seconds')) > 2.1);
    expect((await fetch(play)).status).toBe(200);
    const address = '203.0.113.2';
    const { cookie } = await post(new URL('/api/visitor', play), {}, { address });
    const turn = { model, stream: true, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] };
    const answer = await post(new URL('/api/chat', play), turn, { address, cookie });
    expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('data: [DONE]')]);
    const counted = await post(new URL('/api/visitor', play), {}, { address, cookie });
    expect(turnsOf(counted)).toEqual({ left: 9, limit: 10 });
  } finally {
    kafka.thaw(1);
  }
});

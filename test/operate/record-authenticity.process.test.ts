/**
 * Tests that someone who can write to the topics, but has neither the gateway token nor the signing key, cannot change
 * anything. Tries every kind of forgery on every topic of an embedded log. Forged records must not count, and `doctor` must
 * name the topic.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeGauges, inFlightWindow } from '../../schemas/records/gauges.ts';
import { countersTopic, gaugesTopic } from '../../schemas/records/limits.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { askAdmin } from '../support/ask-admin.ts';
import { type Check, checksIn, isFault } from '../support/checks.ts';
import {
  completion,
  type GatewayProcess,
  gatewayToken,
  model,
  type Plane,
  smallFleet,
  statusWith,
} from '../support/process-fleet.ts';
import { SignedFleet } from '../support/signed-fleet.ts';
import { reportOf } from '../support/status-reports.ts';
import { until } from '../support/until.ts';

const fleet = new SignedFleet();
const key = fleet.key('own');
let node: FaultyNode;
let plane: Plane;
let gateway: GatewayProcess;
let apiKey: string;
let period: string;
/** Number of requests sent by this file that were answered. */
let answered = 0;

/**
 * Monthly tokens that the tier allows. Forged usage fits into them, so it would be visible if it counted. They are also few
 * enough that requests are published at once.
 */
const tokensMax = 1500;
const forgedTokens = 500;
const requests = 3;

beforeAll(async () => {
  node = await startFaultyNode({ models: [model], tokensPerSecond: 0 });
  plane = await fleet.controlPlane('cp', key);
  const admin = fleet.admin(plane);
  const tiers = [{ id: 'Wide', models: '*' as const, monthlyTokens: tokensMax, concurrency: 1000 }];
  await admin.apply({ ...smallFleet(node.url), tiers });
  apiKey = (await admin.createKey('acme', 'k')).value;
  gateway = await fleet.startGateway('gw');
  await until(async () => (await statusWith(gateway.ready.api, apiKey)) === 200, 60_000);
  answered = 1;
  while (answered < requests) await expectAnswer();
  await until(async () => (await usage())['requests'] === requests && (await used()) > 0, 60_000);
  period = String((await usage())['period']);
}, 180_000);
afterAll(async () => {
  await fleet.close();
  await node.close();
});

const usage = async () =>
  (await fleet.admin(plane).call('GET', '/usage?organisation=acme')) as Record<string, unknown>;
const limits = () => fleet.admin(plane).call('GET', '/organisations/acme/limits');
const used = async (): Promise<number> => (await limits()).tokens.used;
const areRowsFolded = async () => Number((await usage())['requests']) === answered;

async function expectAnswer(): Promise<void> {
  expect(await statusWith(gateway.ready.api, apiKey)).toBe(200);
  answered++;
}

/**
 * Waits until the control plane knows all requests that this file has sent. A short request may be published as in flight
 * after its row was counted. So the last request is held until the control plane shows it in flight, and is then abandoned
 * without a row.
 */
async function settled(): Promise<void> {
  await until(areRowsFolded, 60_000);
  const inFlight = async (): Promise<number | null> => (await limits()).concurrency.inFlight;
  node.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
  const leaves = new AbortController();
  const held = completion(gateway.ready.api, apiKey, {}, { signal: leaves.signal }).catch(() => undefined);
  await until(async () => (await inFlight()) === 1, 60_000);
  leaves.abort();
  await held;
  await until(async () => (await inFlight()) === 0, 60_000);
  node.setBehaviour(parseBehaviour({}));
}

/** Returns everything that a forged record would change. */
async function answers() {
  const { items } = await fleet.admin(plane).call('GET', '/gateways');
  const { tokens, concurrency } = await limits();
  const { requests: completed, totalTokens, models } = await usage();
  const { position } = await fleet.admin(plane).call('GET', '/status');
  const rows = (await (await exported()).text()).split('\n').length;
  const gateways = items.map(({ name }) => name);
  return {
    completed,
    totalTokens,
    models,
    rows,
    used: tokens.used,
    inFlight: concurrency.inFlight,
    gateways,
    position,
  };
}
const exported = () => askAdmin(plane.ready.admin, '/usage/export?organisation=acme');

const at = new Date().toISOString();
/** Records that would count if they had a valid MAC. The usage rows name no replica, as rows of 0.1 gateways did. */
const forged: Readonly<Record<string, () => Buffer>> = {
  [usageTopic]: () => {
    const what = {
      organisation: 'acme',
      period,
      draw: 'pool',
      model,
      promptTokens: forgedTokens,
      completionTokens: 0,
    };
    return json([{ v: 1, incarnation: randomUUID(), n: 1, at, ...what, requestId: 'forged' }]);
  },
  [countersTopic]: () => {
    const entries = [['acme', period, forgedTokens, 1]];
    return json({
      v: 1,
      replica: randomUUID(),
      process: randomUUID(),
      name: 'gw-evil',
      at: Date.now(),
      entries,
    });
  },
  [gaugesTopic]: () => {
    const held = { subject: 'acme', window: inFlightWindow, limit: 1000, used: 100, claim: 100 };
    const process = randomUUID();
    return encodeGauges({
      process,
      name: 'gw-evil',
      n: 1,
      at: Date.now(),
      ended: [],
      silent: [],
      entries: [held],
    });
  },
  [statusTopic]: () => json(reportOf({ name: 'gw-evil', log: null })),
};
const topics = Object.keys(forged);
const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
const macOf = (topic: string, value: Buffer, token = gatewayToken): Buffer =>
  new RecordMac(topic, token).of(value);

/** Returns MACs that someone without the gateway token can produce. */
function forgedMacs(topic: string, value: Buffer): (Buffer | null)[] {
  const changed = Buffer.from(value);
  changed[changed.length - 2] = (changed[changed.length - 2] ?? 0) ^ 1;
  const others = topics.filter((other) => other !== topic);
  return [
    null,
    Buffer.alloc(0),
    macOf(topic, value, 'token-of-somebody-else'),
    macOf(topic, changed),
    macOf(topic, value).subarray(0, 16),
    ...others.map((other) => macOf(other, value)),
  ];
}

async function append(topic: string, records: readonly (readonly [Buffer, Buffer | null])[]): Promise<void> {
  const log = await openLog(fleet.logUrl, { topic }, { allowTrimmed: true });
  for (const [value, mac] of records) await log.append(value, mac);
  await log.close();
}

async function findings(): Promise<Check[]> {
  const { stdout } = await fleet.cli(['doctor', '--skip', 'machine', '-o', 'json'], {
    HEADGATE_ADMIN: plane.ready.admin,
  });
  return checksIn(stdout).filter(isFault);
}

test('a record without a valid MAC counts on no topic, and doctor names the topic', async () => {
  await settled();
  const before = await answers();
  for (const topic of topics)
    await append(
      topic,
      forgedMacs(topic, Buffer.alloc(9)).map((_, kind): [Buffer, Buffer | null] => {
        const value = forged[topic]?.() ?? Buffer.alloc(0);
        return [value, forgedMacs(topic, value)[kind] ?? null];
      }),
    );
  // Forged keys go to the control log, which relies on signatures instead of MACs.
  await fleet.forgeKey('acme');
  await fleet.forgeKey('acme', fleet.key('another').signer);
  let refused: Check[] = [];
  await until(async () => {
    refused = (await findings()).filter(({ code }) => code === 'HG2016');
    return refused.length === topics.length;
  }, 60_000);
  for (const topic of topics)
    expect(refused.find(({ object }) => object === topic)?.text).toMatch(
      /^8 records have no valid MAC .* offsets \d+ to \d+(?:; the records name .*)?$/,
    );
  expect(await answers()).toEqual(before);
  await expectAnswer();
}, 180_000);

test('nobody can take a gateway’s row numbers, so its later requests count', async () => {
  const rows = (await (await exported()).text()).trim().split('\n');
  const { incarnation, n } = JSON.parse(rows.at(-1) ?? '') as { incarnation: string; n: number };
  const next = Array.from({ length: 500 }, (_, index) => ({
    ...{ v: 1, incarnation, n: n + 1 + index, at, organisation: 'nobody', period, draw: 'pool', model },
    ...{ promptTokens: 0, completionTokens: 0, requestId: `r-${index}`, replica: randomUUID() },
  }));
  await append(usageTopic, [[json(next), null]]);
  await expectAnswer();
  await until(areRowsFolded, 60_000);
}, 180_000);

test('a record repeated with its MAC counts once', async () => {
  await settled();
  // The token count is compared separately, because it may still rise to the total of the rows, but not above it.
  const { used: _, ...before } = await answers();
  for (const topic of topics) {
    const log = await openLog(fleet.logUrl, { topic }, { allowTrimmed: true });
    const mac = new RecordMac(topic, gatewayToken);
    const genuine: [Buffer, Buffer | null][] = [];
    for await (const records of batchesToEnd(log))
      for (const { value, signature } of records)
        if (signature !== null && mac.accepts(value, signature)) genuine.push([value, signature]);
    await log.close();
    expect(genuine.length, topic).toBeGreaterThan(0);
    await append(topic, genuine.slice(0, 50));
  }
  // Waits until a repeated usage row is counted, because all records that were written again have been read by then.
  await until(async () => {
    const metrics = await (await fetch(`${plane.ready.metrics}/metrics`)).text();
    return Number(/headgate_usage_rows_total\{outcome="repeated"\} (\d+)/.exec(metrics)?.[1]) > 0;
  }, 60_000);
  const { used: counted, ...after } = await answers();
  expect(after).toEqual(before);
  expect(counted).toBeLessThanOrEqual(Number(after.totalTokens));
  const faults = (await findings()).map(({ code, object }) => `${code} ${object}`);
  expect(faults).not.toContain('HG7003 differing');
}, 180_000);

test('the same records count with the gateway token’s MAC', async () => {
  const before = await used();
  for (const topic of topics) {
    const value = forged[topic]?.() ?? Buffer.alloc(0);
    await append(topic, [[value, macOf(topic, value)]]);
  }
  await until(async () => ((await limits()).concurrency.inFlight ?? 0) >= 100, 30_000);
  await until(async () => Number((await usage())['totalTokens']) >= forgedTokens, 30_000);
  // The usage counters of limits must rise as well, because limits do not use the rows.
  await until(async () => (await used()) >= before + forgedTokens, 30_000);
  await until(async () => {
    const { items } = await fleet.admin(plane).call('GET', '/gateways');
    return items.some(({ name }) => name === 'gw-evil');
  }, 30_000);
}, 180_000);

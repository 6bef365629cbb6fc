// Measures what other gateways' traffic costs a gateway that serves no requests itself. 50 simulated peers (BENCH_PEERS)
// serve BENCH_REQUESTS_PER_SECOND requests per second for 1 000 and 5 000 active organisations. The bench measures the CPU
// time to authenticate, decode and fold their records, the additional CPU time of a real idle gateway when peers serve
// requests, and the CPU time of a control plane per usage row.
import { randomUUID } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openUsageStore } from '../../control-plane/usage/usage-store.ts';
import { Claimant } from '../../data-plane/limits/claimant.ts';
import { decodeGauges, encodeGauges, inFlightWindow } from '../../schemas/records/gauges.ts';
import {
  countersTopic,
  gaugesTopic,
  type LimitTopicName,
  readCounterRecord,
} from '../../schemas/records/limits.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { RecordMac } from '../../shared/log/core/record-mac.ts';
import { openLimitTopic } from '../../shared/log/limit-topic.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import {
  type GatewayProcess,
  gatewayToken,
  type Plane,
  ProcessFleet,
} from '../../test/support/process-fleet.ts';
import { threadMicroseconds } from './support/cpu.ts';
import {
  counterRecords,
  countersOfRound,
  gaugeRecords,
  gaugesOfRound,
  type PublishedRecord,
  period,
  type Traffic,
} from './support/peers.ts';

const peers = Number(process.env['BENCH_PEERS'] ?? 50);
const requestsPerSecond = Number(process.env['BENCH_REQUESTS_PER_SECOND'] ?? 1000);
/** Number of rounds for the idle gateway. Each measures its CPU time both with and without the other gateways' traffic. */
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const counterSeconds = 60;
const gaugeSeconds = 10;
const rows = 100_000;

function cpuMicros(since?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return user + system;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const rounded = (value: number): number => Number(value.toFixed(2));
const sumBytes = (records: readonly PublishedRecord[]): number =>
  records.reduce((sum, { value }) => sum + value.length + 32, 0);

/** Returns the lowest CPU time of several runs, in µs. Other work on the machine disturbs the slower runs. */
function least(run: () => void): number {
  const times = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    run();
    return cpuMicros(before);
  });
  return Math.min(...times);
}

function authenticate(topic: LimitTopicName, records: readonly PublishedRecord[]): number {
  const mac = new RecordMac(topic, gatewayToken);
  const signed = records.map(({ value }) => ({ value, signature: mac.of(value) }));
  return least(() => {
    for (const { value, signature } of signed) mac.accepts(value, signature);
  });
}

interface Traffics {
  readonly counters: ReturnType<typeof counterRecords>;
  readonly gauges: ReturnType<typeof gaugeRecords>;
}

function records(traffic: Traffic): Traffics {
  return {
    counters: counterRecords(traffic, counterSeconds),
    gauges: gaugeRecords(traffic, gaugeSeconds),
  };
}

/** Measures only authenticating, decoding and folding records, in µs per request that another gateway served. */
function folding({ counters, gauges }: Traffics, { organisations }: Traffic) {
  const state = new CounterState();
  const nowMs = Date.now();
  const merge = (all: readonly PublishedRecord[]): void => {
    for (const { value } of all) {
      const record = readCounterRecord(value);
      if (record !== undefined) state.apply(record, nowMs);
    }
  };
  merge(counters.warm);
  const all = [...gauges.warm, ...gauges.measured];
  const fold = (): void => {
    const claimant = new Claimant({ name: 'idle', mint: randomUUID, live: peers });
    for (const [offset, { value }] of all.entries()) {
      const record = decodeGauges(value);
      if (record !== undefined) claimant.onRecord(record, offset, 0);
    }
  };
  const micros = {
    counters: authenticate(countersTopic, counters.measured) + least(() => merge(counters.measured)),
    gauges: authenticate(gaugesTopic, gauges.measured) + least(fold) * (gauges.measured.length / all.length),
  };
  return {
    organisations,
    countersMicrosPerRequest: rounded(micros.counters / (requestsPerSecond * counterSeconds)),
    gaugesMicrosPerRequest: rounded(micros.gauges / gauges.admitted),
    countersBytesPerSecond: Math.round(sumBytes(counters.measured) / counterSeconds),
    gaugesBytesPerSecond: Math.round(sumBytes(gauges.measured) / gaugeSeconds),
    recordsPerSecond: Math.round(
      counters.measured.length / counterSeconds + gauges.measured.length / gaugeSeconds,
    ),
  };
}

/** Measures the bytes of memory per subject and replica in a gateway that has read all records of its peers. */
async function memory({ organisations }: Traffic) {
  const sumBytes = async (make: () => unknown): Promise<number> => {
    // Wait for one turn of the event loop, so that no reference to previously measured objects remains.
    await sleep(1);
    collectGarbage();
    const before = process.memoryUsage();
    const made = make();
    await sleep(1);
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    // Use `made` here, so that it is not garbage-collected earlier.
    return made === undefined ? 0 : heapUsed + external - before.heapUsed - before.external;
  };
  const nowMs = Date.now();
  const subjects = Array.from({ length: organisations }, (_, n) => `organisation-${n}`);
  const counters = await sumBytes(() => {
    const state = new CounterState();
    for (let replica = 0; replica < peers; replica++)
      for (let from = 0; from < organisations; from += 500) {
        const entries = subjects
          .slice(from, from + 500)
          .map((subject, n) => [subject, period, 60_000 + n, 1000 + n]);
        const ids = { replica: `replica-${replica}`, process: `process-${replica}` };
        const value = Buffer.from(JSON.stringify({ v: 1, ...ids, at: nowMs, entries }));
        const record = readCounterRecord(value);
        if (record !== undefined) state.apply(record, nowMs);
      }
    // Clear the state's list of changed values, as a gateway does when it copies the state to disk.
    Array.from(state.takeUnsaved());
    return state;
  });
  const gauges = await sumBytes(() => {
    const claimant = new Claimant({ name: 'idle', mint: randomUUID, live: peers });
    for (let peer = 0; peer < peers; peer++)
      for (let from = 0, n = 1; from < organisations; from += 500, n++) {
        const ids = { process: `process-${peer}`, name: `edge-${peer}`, n, at: 0, ended: [], silent: [] };
        const entries = subjects
          .slice(from, from + 500)
          .map((subject) => ({ subject, window: inFlightWindow, limit: 100, used: 1, claim: 1 }));
        const record = decodeGauges(encodeGauges({ ...ids, entries }));
        if (record !== undefined) claimant.onRecord(record, peer, 0);
      }
    return claimant;
  });
  const each = (bytes: number) => Math.round(bytes / organisations / peers);
  return {
    organisations,
    replicas: peers,
    countersBytes: each(counters),
    gaugesBytes: each(gauges),
  };
}

/** Publishes records at the times at which peers would publish them. */
async function publish(
  logUrl: string,
  { counters, gauges }: Record<'counters' | 'gauges', readonly PublishedRecord[]>,
): Promise<void> {
  const openTopic = (topic: LimitTopicName) => openLimitTopic(logUrl, { topic, tokens: [gatewayToken] });
  const topics = [openTopic(countersTopic), openTopic(gaugesTopic)] as const;
  const all = [
    ...counters.map((each) => [each, topics[0]] as const),
    ...gauges.map((each) => [each, topics[1]] as const),
  ].sort(([one], [other]) => one.atMs - other.atMs);
  const startMs = performance.now();
  const pending: Promise<unknown>[] = [];
  for (const [{ atMs, value }, topic] of all) {
    const leftMs = startMs + atMs - performance.now();
    if (leftMs > 1) await sleep(leftMs);
    pending.push(topic.append(value));
  }
  await Promise.all(pending);
  await sleep(500);
  for (const topic of topics) await topic.close();
}

/** Measures the CPU time of a real gateway without requests while its peers serve, minus the time while they are idle. */
async function idleGateway(busy: Traffics, { organisations }: Traffic) {
  const fleet = new ProcessFleet();
  try {
    await fleet.serve<Plane['ready']>('control-plane', 'plane');
    const { ready } = await fleet.serve<GatewayProcess['ready']>('gateway', 'idle');
    const quiet = records({ peers, organisations, requestsPerSecond: 0 });
    let round = 0;
    const spent = async ({ counters, gauges }: Traffics): Promise<number> => {
      round++;
      const published = {
        counters: countersOfRound(
          counters.measured.filter(({ atMs }) => atMs < gaugeSeconds * 1000),
          round,
        ),
        gauges: gaugesOfRound(gauges.measured, round),
      };
      const before = threadMicroseconds(ready.pid);
      await publish(fleet.logUrl, published);
      return threadMicroseconds(ready.pid) - before;
    };
    // The first seconds of a process are not measured, because they cost more than later ones.
    await spent(quiet);
    await spent(busy);
    const pairs: (readonly [number, number])[] = [];
    for (let round = 0; round < rounds; round++) pairs.push([await spent(quiet), await spent(busy)]);
    const perRequest = (micros: number) => rounded(micros / (requestsPerSecond * gaugeSeconds));
    const differences = pairs.map(([idle, working]) => perRequest(working - idle)).sort((a, b) => a - b);
    const percentOfACore = (all: readonly number[]) =>
      rounded(all.reduce((sum, micros) => sum + micros, 0) / rounds / gaugeSeconds / 1e4);
    return {
      organisations,
      idlePercentOfACore: percentOfACore(pairs.map(([idle]) => idle)),
      busyPercentOfACore: percentOfACore(pairs.map(([, working]) => working)),
      microsPerRequest: differences[Math.floor(rounds / 2)],
      least: differences[0],
      most: differences.at(-1),
    };
  } finally {
    await fleet.close();
  }
}

function controlPlane() {
  const mac = new RecordMac(usageTopic, 'gateway-token-of-the-bench');
  const store = openUsageStore(':memory:', { keepRows: true, mac });
  const incarnation = randomUUID();
  const at = new Date().toISOString();
  const batches = Array.from({ length: rows / 100 }, (_, record) => {
    const body = Array.from({ length: 100 }, (_, index) => {
      const n = record * 100 + index + 1;
      const owner = { organisation: `organisation-${n % 1000}`, period, draw: 'pool', model: 'echo-small' };
      const counts = { promptTokens: 20, completionTokens: 40, requestId: `r-${n}`, replica: incarnation };
      return { v: 1, incarnation, n, at, ...owner, ...counts };
    });
    const value = Buffer.from(JSON.stringify(body));
    return { offset: record, value, signature: mac.of(value) };
  });
  const bytes = batches.reduce((sum, { value }) => sum + value.length, 0);
  const before = process.cpuUsage();
  for (let next = 0; next < batches.length; ) next += store.apply(0, batches.slice(next, next + 50)).consumed;
  const micros = cpuMicros(before);
  store.close();
  return {
    microsPerRow: rounded(micros / rows),
    rowsPerSecond: Math.round((rows / micros) * 1e6),
    usageBytesPerSecond: Math.round((bytes / rows) * requestsPerSecond),
  };
}

const sizes = [1000, 5000].map((organisations) => ({ peers, organisations, requestsPerSecond }));
// Memory is measured first, while the heap contains nothing else that could be collected meanwhile.
const memories: Awaited<ReturnType<typeof memory>>[] = [];
for (const traffic of sizes) memories.push(await memory(traffic));
const rules: ReturnType<typeof folding>[] = [];
const gateways: Awaited<ReturnType<typeof idleGateway>>[] = [];
for (const traffic of sizes) {
  const made = records(traffic);
  rules.push(folding(made, traffic));
  gateways.push(await idleGateway(made, traffic));
}
const plane = controlPlane();
console.table(rules);
console.table(gateways);
console.table(memories);
console.table([plane]);
console.log(JSON.stringify({ peers, requestsPerSecond, rules, gateways, memories, controlPlane: plane }));

// What the traffic of others costs: the processor time of an idle gateway for a minute of counters of 50 peers, per request
// that they served, with 1 000 and 5 000 active organisations; and that of a control plane per usage row. The peers publish
// each organisation once a minute, and those near the end of their allowance (5 %) after each request.
// BENCH_PEERS and BENCH_REQUESTS_PER_SECOND set the load. Gauges are not in it.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CounterEntry, counterEntriesMax, countersTopic } from '../schemas/limits.ts';
import { openCounterCopy } from '../shared/limits/counter-copy.ts';
import { CounterFeed, saveEveryMs } from '../shared/limits/counter-feed.ts';
import { CounterState } from '../shared/limits/counters.ts';
import { limitTopicAt } from '../shared/log/limit-topic.ts';
import { openUsageStore } from '../shared/usage/usage-store.ts';

const peers = Number(process.env['BENCH_PEERS'] ?? 50);
const perSecond = Number(process.env['BENCH_REQUESTS_PER_SECOND'] ?? 1000);
const seconds = 60;
const nearEndPart = 0.05;
const rows = 100_000;
const period = `${new Date().toISOString().slice(0, 8)}01`;
const silent = { warn: () => undefined, error: () => undefined, fatal: () => undefined };

function cpuMicros(since?: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return user + system;
}

async function gateway(organisations: number) {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-bench-fleet-'));
  const logUrl = `sqlite:${join(folder, 'log')}`;
  const topic = limitTopicAt(logUrl, { topic: countersTopic, tokens: ['gateway-token-of-the-bench'] });
  const replicas = Array.from({ length: peers }, () => ({ replica: randomUUID(), process: randomUUID() }));
  let bytes = 0;
  let entries = 0;
  const append = (peer: number, part: readonly CounterEntry[]): Promise<number> => {
    const record = { v: 1, ...replicas[peer % peers], name: `edge-${peer}`, at: Date.now(), entries: part };
    const raw = Buffer.from(JSON.stringify(record));
    bytes += raw.length + 32;
    entries += part.length;
    return topic.append(raw);
  };
  for (let peer = 0; peer < peers; peer++)
    for (let from = 0; from < organisations; from += counterEntriesMax) {
      const ids = Array.from(
        { length: Math.min(counterEntriesMax, organisations - from) },
        (_, n) => from + n,
      );
      await append(
        peer,
        ids.map((id) => [`organisation-${id}`, period, 100_000 + id, 100]),
      );
    }
  const urgent = perSecond * seconds * nearEndPart;
  for (let from = 0; from < urgent; from += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        append(from + n, [[`organisation-${(from + n) % 50}`, period, 200_000 + from, 200]]),
      ),
    );
  await topic.close();
  const state = new CounterState();
  const reader = limitTopicAt(logUrl, { topic: countersTopic, tokens: ['gateway-token-of-the-bench'] });
  const feed = new CounterFeed({
    ...{ topic: reader, state, logger: silent, copy: openCounterCopy(join(folder, 'counters.db')) },
    read: (record, nowMs) => state.apply(record, nowMs).dropped,
  });
  global.gc?.();
  const heap = process.memoryUsage().heapUsed;
  const before = process.cpuUsage();
  feed.start();
  if (!(await feed.caughtUp(120_000))) throw new Error('the topic was not read to its end');
  const readMicros = cpuMicros(before);
  const saving = process.cpuUsage();
  feed.save();
  // What a minute changes is written once in many minutes.
  const micros = readMicros + (cpuMicros(saving) * seconds * 1000) / saveEveryMs;
  global.gc?.();
  const heapBytes = process.memoryUsage().heapUsed - heap;
  await feed.stop();
  rmSync(folder, { recursive: true });
  return {
    organisations,
    microsPerRequest: Number((micros / (perSecond * seconds)).toFixed(2)),
    microsPerEntry: Number((micros / entries).toFixed(2)),
    countersBytesPerSecond: Math.round(bytes / seconds),
    heapBytesPerValue: Math.round(heapBytes / (peers * organisations)),
  };
}

function controlPlane() {
  const store = openUsageStore(':memory:', { keepRows: true });
  const incarnation = randomUUID();
  const at = new Date().toISOString();
  const records = Array.from({ length: rows / 100 }, (_, record) => {
    const body = Array.from({ length: 100 }, (_, index) => {
      const n = record * 100 + index + 1;
      const owner = { organisation: `organisation-${n % 1000}`, period, draw: 'pool', model: 'echo-small' };
      const counts = { promptTokens: 20, completionTokens: 40, requestId: `r-${n}`, replica: incarnation };
      return { v: 1, incarnation, n, at, ...owner, ...counts };
    });
    return { offset: record, value: Buffer.from(JSON.stringify(body)), signature: null };
  });
  const bytes = records.reduce((sum, { value }) => sum + value.length, 0);
  const before = process.cpuUsage();
  for (let next = 0; next < records.length; ) next += store.apply(0, records.slice(next, next + 50)).consumed;
  const micros = cpuMicros(before);
  store.close();
  return {
    microsPerRow: Number((micros / rows).toFixed(2)),
    rowsPerSecond: Math.round((rows / micros) * 1e6),
    usageBytesPerSecond: Math.round((bytes / rows) * perSecond),
  };
}

const gateways = [await gateway(1000), await gateway(5000)];
const plane = controlPlane();
console.table(gateways);
console.table([plane]);
console.log(JSON.stringify({ peers, requestsPerSecond: perSecond, gateways, controlPlane: plane }));

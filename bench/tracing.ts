// What spans cost a request: gateways without an exporter, with a tenth of the requests recorded, and with all, on one processor.
// They take turns in each round, and what counts is the median of the differences within a round. The receiver answers at once.
// BENCH_SECONDS (4) of each turn · BENCH_ROUNDS (5)
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { passTrace } from '../data-plane/core/trace-context.ts';
import { cpuMicroseconds } from './support/cpu.ts';
import { saturate } from './support/load.ts';
import { type OneCore, startOnOneCore } from './support/one-core.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 4);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5);
const connections = 64;
const warmUpSeconds = 8;

let batches = 0;
let bytes = 0;
const receiver = createServer((request, response) => {
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  request.on('end', () => {
    batches++;
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
});
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;

const queue = { OTEL_BSP_MAX_QUEUE_SIZE: '20000' };
const exporting = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...queue };
const tenth = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' };
const variants = [
  { name: 'off', env: {} },
  { name: 'tenth', env: { ...exporting, ...tenth } },
  { name: 'all', env: exporting },
];

/** The part of a request that is paid without an exporter and without a client's trace. */
function costOfPassing(): { readonly nanoseconds: number; readonly bytes: number } {
  const calls = 20_000_000;
  const pass = (count: number): number => {
    let found = 0;
    for (let n = 0; n < count; n++) if (passTrace(undefined) !== undefined) found++;
    return found;
  };
  pass(calls / 10);
  const heap = process.memoryUsage().heapUsed;
  const from = process.cpuUsage();
  pass(calls);
  const { user } = process.cpuUsage(from);
  const grown = Math.max(0, process.memoryUsage().heapUsed - heap);
  return { nanoseconds: (user * 1000) / calls, bytes: Math.floor(grown / calls) };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const tenths = (value: number): number => Math.round(value * 10) / 10;

async function costOf({ pid, target }: OneCore, forSeconds: number): Promise<number> {
  const before = cpuMicroseconds(pid);
  const { requests, failures } = await saturate(target, connections, forSeconds);
  if (failures > 0) throw new Error(`${failures} of ${requests} requests failed`);
  return (cpuMicroseconds(pid) - before) / requests;
}

const running: OneCore[] = [];
try {
  for (const { env } of variants) running.push(await startOnOneCore('', env));
  for (const one of running) await costOf(one, warmUpSeconds);
  const costs: number[][] = variants.map(() => []);
  for (let round = 0; round < rounds; round++)
    for (const [index, one] of running.entries()) {
      // Not always in one order: each follows another one.
      const at = (index + round) % running.length;
      costs[at]?.push(await costOf(running[at] ?? one, seconds));
    }
  const off = costs[0] ?? [];
  const figures = variants.map(({ name }, index) => ({
    spans: name,
    cpuMicrosecondsPerRequest: tenths(median(costs[index] ?? [])),
    moreThanOff: tenths(median((costs[index] ?? []).map((cost, round) => cost - (off[round] ?? 0)))),
  }));
  console.table(figures);
  const passing = costOfPassing();
  console.log(
    `without an exporter: ${passing.nanoseconds.toFixed(2)} ns and ${passing.bytes} bytes a request`,
  );
  console.log(JSON.stringify({ bench: 'tracing', rounds, seconds, figures, passing, batches, bytes }));
} finally {
  for (const one of running) await one.end();
  receiver.closeAllConnections();
  receiver.close();
}

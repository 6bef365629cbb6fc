// Saturates a gateway that runs on one processor. No response may be an error, and afterwards the usage log must contain each
// request exactly once. BENCH_SECONDS sets the duration (60). A bare proxy then runs for a sixth of that time, so that
// latencies can be compared.
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { percentile, saturate } from './support/load.ts';
import { startOnOneCore } from './support/one-core.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 60);
const connections = 64;
/** Time in ms within which a gateway must publish its last rows. */
const settleMs = 10_000;

const { admin, pid, target, bare, end } = await startOnOneCore();
const billed = async (): Promise<number> => {
  const { requests } = await admin.run('usage.get', { organisation: 'birch' });
  return requests;
};

try {
  const floor = await saturate(bare.target, connections, Math.max(2, seconds / 6));
  const before = cpuMicroseconds(pid);
  const full = await saturate(target, connections, seconds);
  const cost = (cpuMicroseconds(pid) - before) / full.requests;
  const until = performance.now() + settleMs;
  while ((await billed()) < full.requests && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 200));
  const figures = {
    seconds: Math.round(full.seconds),
    requests: full.requests,
    errors: full.failures,
    billed: await billed(),
    cpuMicrosecondsPerRequest: Math.round(cost),
    p50Milliseconds: Math.round(percentile(full.latencies, 50) / 100) / 10,
    p99Milliseconds: Math.round(percentile(full.latencies, 99) / 100) / 10,
    p99OfBareProxyMilliseconds: Math.round(percentile(floor.latencies, 99) / 100) / 10,
    rssMegabytes: Math.round(rssMegabytes(pid)),
  };
  console.table([figures]);
  console.log(JSON.stringify({ bench: 'saturated', ...figures }));
  if (figures.errors > 0 || figures.billed !== figures.requests) process.exitCode = 1;
} finally {
  await end();
}

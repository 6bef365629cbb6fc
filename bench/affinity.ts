/**
 * The right node among equals: how much of the prompts the nodes have cached, how long the first token takes and how even
 * the load is, by the rule of data-plane/upstream/affinity.ts and by others, over five workloads in simulated time.
 * Names of workloads as arguments choose.
 */
import type { PolicyName } from './support/affinity/policies.ts';
import { type SimulationSettings, simulate } from './support/affinity/simulation.ts';
import { workloads } from './support/affinity/workloads.ts';

const policies: readonly PolicyName[] = [
  'random',
  'round robin',
  'least loaded',
  'two choices',
  'affinity',
  'oracle',
];
const settings: SimulationSettings = {
  nodes: 8,
  cacheTokens: 300_000,
  prefillTokensPerSecond: 10_000,
  tokensPerSecond: 50,
  gateways: 4,
  seconds: 300,
  warmUpSeconds: 60,
  lost: 2,
  seed: 7,
};

const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;
const at = (sorted: readonly number[], p: number): number =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? 0);

const results: Record<string, Record<string, object>> = {};
const only = process.argv.slice(2);
for (const { name } of workloads(1)) {
  if (only.length > 0 && !only.includes(name)) continue;
  process.stdout.write(
    `\n| ${name} | hit rate | first token p50 ms | p95 ms | load / mean | moved | moved after loss |\n|---|--:|--:|--:|--:|--:|--:|\n`,
  );
  results[name] = {};
  for (const policy of policies) {
    // Workloads hold state, so each policy gets its own of the same seed.
    const workload = workloads(1).find((one) => one.name === name);
    if (workload === undefined) continue;
    const startMs = performance.now();
    const { hitRate, firstTokenMs, loadOverMean, movedBefore, movedAfterLoss, requests } = simulate(
      workload,
      settings,
      policy,
    );
    const figures = { requests, hitRate, loadOverMean, movedBefore, movedAfterLoss };
    const [p50, p95] = [at(firstTokenMs, 0.5), at(firstTokenMs, 0.95)];
    (results[name] as Record<string, object>)[policy] = { ...figures, p50, p95 };
    process.stdout.write(
      `| ${policy} | ${percent(hitRate)} | ${p50} | ${p95} | ${loadOverMean.toFixed(2)} | ${percent(movedBefore)} | ${percent(movedAfterLoss)} |\n`,
    );
    process.stderr.write(
      `${name} ${policy} ${requests} requests, ${Math.round(performance.now() - startMs)} ms\n`,
    );
  }
}
process.stdout.write(`\n${JSON.stringify({ settings, results })}\n`);

/**
 * Runs a whole fleet in simulated time, from a seed:
 *
 *     npm run simulate -- --seed N [--minutes M] [--seeds COUNT] [--log FILE]
 *
 * Prints one line per seed. After a violation, prints the run's last events too and exits with 1. `--log` writes all events
 * of the run to a file. If there are several seeds, each runs in a process of its own, so that no run depends on another.
 * `--shrink` leaves out faults and actions of operators as long as the seed still breaks the same rule, and prints the rest.
 * `--without ID,ID` leaves out these. `--fault NAME` plants a fault in the product and runs seeds until one finds it. `--faults` does so for every planted fault.
 * Both exit with 1 if a fault is not found.
 */
import { type StdioOptions, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installEnvironment } from './environment.ts';
import { Journal } from './journal.ts';
import { Network } from './network.ts';
import { plant, plantedFaults } from './planted.ts';
import { Scheduler } from './scheduler.ts';
import { shrink } from './shrink.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
    fault: { type: 'string' },
    faults: { type: 'boolean' },
    log: { type: 'string' },
    shrink: { type: 'boolean' },
    without: { type: 'string', default: '' },
  },
});
const { seed, seeds, minutes, log } = {
  ...{ seed: Number(values.seed), seeds: Number(values.seeds) },
  ...{ minutes: Number(values.minutes), log: values.log },
};
/** Number of journal lines to print after a violation. */
const printedLines = 60;
// Keeps the real function, because the simulation replaces `process.exit`.
const exit = process.exit.bind(process);
const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Runs one seed in a process of its own. `lines` is what it printed. */
function runApart(
  program: string,
  next: number,
  without: readonly string[] = [],
  stdio: StdioOptions = 'pipe',
) {
  const args = ['--seed', String(next), '--minutes', String(minutes), '--without', without.join()];
  const { status, stdout } = spawnSync(process.execPath, [program, ...args], { stdio, encoding: 'utf8' });
  return { isOk: status === 0, lines: stdout?.trim().split('\n') ?? [] };
}

/** Finds few faults and actions with which the seed still breaks the same rule, and prints the run with only these. */
function shrinkSeed(): void {
  const rule = (lines: readonly string[]): string => lines.at(-3)?.split(':')[0] ?? '';
  const whole = runApart(import.meta.filename, seed);
  if (whole.isOk) return;
  const ids: readonly string[] = JSON.parse(whole.lines.at(-1) ?? '[]');
  const others = (kept: readonly string[]): string[] => ids.filter((id) => !kept.includes(id));
  const kept = shrink(ids, (rest) => {
    const { isOk, lines } = runApart(import.meta.filename, seed, others(rest));
    return !isOk && rule(lines) === rule(whole.lines);
  });
  runApart(import.meta.filename, seed, others(kept), 'inherit');
}

/** Plants a fault and runs seeds until the simulation finds it. Returns whether it did. */
function findFault(name: string): boolean {
  const folder = mkdtempSync(join('/dev/shm', 'headgate-simulation-'));
  try {
    const program = plant(name, folder);
    for (let next = seed; next < seed + seeds; next++) {
      const { isOk, lines } = runApart(program, next);
      if (isOk) continue;
      process.stdout.write(`${name}: found by seed ${next}: ${lines.at(-3)?.slice(0, 200)}\n`);
      return true;
    }
    process.stdout.write(`${name}: NOT FOUND by ${seeds} seeds\n`);
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs each seed in a process of its own and returns the number of seeds with violations. */
function runSeeds(): number {
  let failed = 0;
  for (let next = seed; next < seed + seeds; next++)
    if (!runApart(import.meta.filename, next, [], 'inherit').isOk) failed++;
  process.stdout.write(`${seeds} seeds of ${minutes} minutes, ${failed} with violations\n`);
  return failed;
}

async function runSeed(): Promise<boolean> {
  const folder = mkdtempSync(join('/dev/shm', 'headgate-simulation-'));
  try {
    const scheduler = new Scheduler(seed);
    installEnvironment(scheduler);
    const network = new Network(scheduler);
    network.install();
    const file = log === undefined ? undefined : openSync(log, 'w');
    const journal = new Journal(scheduler, (line) => file !== undefined && writeSync(file, `${line}\n`));
    const { simulate } = await import('./run.ts');
    const beganSeconds = cpuSeconds();
    const without = new Set(values.without.split(','));
    const options = { scheduler, network, journal, folder, minutes, without };
    const { violation, counts, ids } = await simulate(options);
    const seconds = cpuSeconds() - beganSeconds;
    const speed = Math.round(scheduler.nowMs / 1000 / seconds);
    if (violation !== undefined)
      process.stdout.write(`${journal.timeline(violation.message, printedLines)}\n${violation.message}\n`);
    process.stdout.write(
      `seed ${seed}: ${violation === undefined ? 'ok' : 'VIOLATION'} ${JSON.stringify(counts)} ${speed} × real time, journal ${journal.digest().slice(0, 16)}\n`,
    );
    if (violation !== undefined) process.stdout.write(`${JSON.stringify(ids)}\n`);
    return violation === undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const faults = values.faults ? plantedFaults().map(({ rule }) => rule) : [values.fault ?? []].flat();
const found = faults.filter(findFault);
if (values.shrink) shrinkSeed();
else if (faults.length > 0) process.exitCode = found.length === faults.length ? 0 : 1;
else process.exitCode = (seeds > 1 ? runSeeds() === 0 : await runSeed()) ? 0 : 1;
exit();

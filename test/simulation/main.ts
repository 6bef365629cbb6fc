/**
 * Runs a whole fleet in simulated time, from a seed:
 *
 *     npm run simulate -- --seed N [--minutes M] [--seeds COUNT] [--log FILE]
 *
 * Prints one line per seed. After a violation, prints the run's last events too and exits with 1. `--log` writes all events
 * of the run to a file. If there are several seeds, each runs in a process of its own, so that no run depends on another.
 * `--fault NAME` plants a fault in the product and runs seeds until one finds it. `--faults` does so for every planted fault.
 * Both exit with 1 if a fault is not found.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installEnvironment } from './environment.ts';
import { Journal } from './journal.ts';
import { Network } from './network.ts';
import { plant, plantedFaults } from './planted.ts';
import { Scheduler } from './scheduler.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
    fault: { type: 'string' },
    faults: { type: 'boolean' },
    log: { type: 'string' },
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

/** Runs one seed in a process of its own. `last` is the line that the process printed before its summary. */
function runApart(program: string, next: number, stdio: 'inherit' | 'pipe'): { isOk: boolean; last: string } {
  const args = [program, '--seed', String(next), '--minutes', String(minutes)];
  const { status, stdout } = spawnSync(process.execPath, args, { stdio, encoding: 'utf8' });
  return { isOk: status === 0, last: stdout?.trim().split('\n').at(-2) ?? '' };
}

/** Plants a fault and runs seeds until the simulation finds it. Returns whether it did. */
function findFault(name: string): boolean {
  const folder = mkdtempSync(join('/dev/shm', 'headgate-simulation-'));
  try {
    const program = plant(name, folder);
    for (let next = seed; next < seed + seeds; next++) {
      const { isOk, last } = runApart(program, next, 'pipe');
      if (isOk) continue;
      process.stdout.write(`${name}: found by seed ${next}: ${last.slice(0, 200)}\n`);
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
    if (!runApart(import.meta.filename, next, 'inherit').isOk) failed++;
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
    const { violation, counts } = await simulate({ scheduler, network, journal, folder, minutes });
    const seconds = cpuSeconds() - beganSeconds;
    const speed = Math.round(scheduler.nowMs / 1000 / seconds);
    if (violation !== undefined)
      process.stdout.write(`${journal.latest.slice(-printedLines).join('\n')}\n${violation.message}\n`);
    process.stdout.write(
      `seed ${seed}: ${violation === undefined ? 'ok' : 'VIOLATION'} ${JSON.stringify(counts)} ${speed} × real time, journal ${journal.digest().slice(0, 16)}\n`,
    );
    return violation === undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const faults = values.faults ? plantedFaults().map(({ rule }) => rule) : [values.fault ?? []].flat();
const found = faults.filter(findFault);
const isOk =
  faults.length > 0 ? found.length === faults.length : seeds > 1 ? runSeeds() === 0 : await runSeed();
exit(isOk ? 0 : 1);

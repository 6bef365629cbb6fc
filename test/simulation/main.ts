/**
 * Runs a whole fleet in simulated time, from a seed:
 *
 *     npm run simulate -- --seed N [--minutes M] [--seeds COUNT] [--log FILE]
 *
 * Prints one line per seed. After a violation, prints the run's last events too and exits with 1. `--log` writes all events
 * of the run to a file. If there are several seeds, each runs in a process of its own, so that no run depends on another.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installEnvironment } from './environment.ts';
import { Journal } from './journal.ts';
import { Network } from './network.ts';
import { Scheduler } from './scheduler.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
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

/** Runs each seed in a process of its own and returns the number of seeds with violations. */
function runSeeds(): number {
  let failed = 0;
  for (let next = seed; next < seed + seeds; next++) {
    const args = [import.meta.filename, '--seed', String(next), '--minutes', String(minutes)];
    if (spawnSync(process.execPath, args, { stdio: 'inherit' }).status !== 0) failed++;
  }
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

const isOk = seeds > 1 ? runSeeds() === 0 : await runSeed();
exit(isOk ? 0 : 1);

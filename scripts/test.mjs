// The test command. `npm test`: the fast tier, with a smoke test of real processes and one of Kafka where Java and Maven
// are installed. `npm test -- --all`: every suite that this machine can run; `--nightly`: the same with ten times the runs
// of each property. What cannot run is reported loudly, and HEADGATE_REQUIRE=kafka,llamacpp,chromium turns that into a failure.
// Other arguments are passed to vitest.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const words = process.argv.slice(2);
const tier = words.includes('--nightly') ? 'nightly' : words.includes('--all') ? 'full' : 'fast';
const isAll = tier !== 'fast';
const rest = words.filter((word) => word !== '--all' && word !== '--nightly');
const required = new Set((process.env.HEADGATE_REQUIRE ?? '').split(',').filter(Boolean));
const projects = isAll ? ['unit', 'process'] : ['unit', 'smoke'];
const skipped = [];

function has(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Adds a suite whose needs are met. */
function offer(suite, project, missing) {
  if (missing.length === 0) projects.push(project);
  else skipped.push({ suite, why: `needs ${missing.join(' and ')}` });
}

const kafkaMissing = [];
if (!has('java', ['-version'])) kafkaMissing.push('Java 17');
if (!has('mvn', ['-version'])) kafkaMissing.push('Maven');
offer('kafka', isAll ? 'kafka' : 'kafka-smoke', kafkaMissing);
if (isAll)
  offer(
    'chromium',
    'browser',
    existsSync('/usr/bin/chromium') ? [] : ['chromium (Debian: apt-get install chromium)'],
  );
if (isAll) offer('llamacpp', 'llamacpp', llamacppMissing());

/** Installs it on the way: it is small, and stays in .cache. */
function llamacppMissing() {
  const options = { encoding: 'utf8' };
  const { status, stderr } = spawnSync('node', ['test/engines/install.mjs', 'llamacpp'], options);
  const why = stderr.trim().split('\n').pop();
  return status === 0 ? [] : [why.replace(/^llamacpp: (needs )?/, '')];
}

const args = ['--no-install', 'vitest', 'run', ...projects.flatMap((project) => ['--project', project])];
const run = spawnSync('npx', [...args, ...rest], {
  stdio: 'inherit',
  env: { ...process.env, HEADGATE_TEST_TIER: tier },
});
for (const { suite, why } of skipped) console.error(`\n*** SKIPPED: the ${suite} suite ${why} ***`);
const isComplete = skipped.every(({ suite }) => !required.has(suite));
process.exit(isComplete ? (run.status ?? 1) : 1);

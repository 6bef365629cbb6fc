// The test command. `npm test` runs the fast tier, a smoke test of real processes and, if possible, a smoke test of Kafka.
// `--all` runs every suite that this machine can run, `--tenfold` does so with ten times the runs of each property, and
// `--nightly` runs all long forms. Suites that cannot run are reported; with HEADGATE_REQUIRE=kafka,llamacpp,chromium,helm
// they are failures. `--part=unit`, `process` or `kafka` runs one part. All other arguments are passed to vitest.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const words = process.argv.slice(2);
if (words.includes('--nightly')) {
  const { runNightly } = await import('./nightly.mjs');
  process.exit(await runNightly(words.filter((word) => word !== '--nightly')));
}
const tier = words.includes('--tenfold') ? 'nightly' : words.includes('--all') ? 'full' : 'fast';
const isAll = tier !== 'fast';
const part = words.find((word) => word.startsWith('--part='))?.slice('--part='.length);
const rest = words.filter((word) => !/^--(all$|tenfold$|part=)/.test(word));
const required = new Set((process.env.HEADGATE_REQUIRE ?? '').split(',').filter(Boolean));
const projects = isAll ? ['unit', 'process'] : ['unit', 'smoke'];
const skipped = [];
const parts = {
  unit: ['unit', 'smoke', 'browser'],
  process: ['process'],
  kafka: ['kafka', 'kafka-smoke', 'llamacpp'],
};
if (part !== undefined && !(part in parts)) {
  console.error(`there is no part ${part}; there are ${Object.keys(parts).join(', ')}`);
  process.exit(2);
}
const isInPart = (project) => part === undefined || parts[part].includes(project);

function has(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Adds a suite to the run if nothing that it requires is missing. */
function offer(suite, project, missing) {
  if (missing.length === 0) projects.push(project);
  else if (isInPart(project)) skipped.push({ suite, why: `needs ${missing.join(' and ')}` });
}

const kafkaMissing = [];
if (!has('java', ['-version'])) kafkaMissing.push('Java 17');
if (!has('mvn', ['-version'])) kafkaMissing.push('Maven');
offer('kafka', isAll ? 'kafka' : 'kafka-smoke', kafkaMissing);
if (isAll) {
  const missing = existsSync('/usr/bin/chromium') ? [] : ['chromium (Debian: apt-get install chromium)'];
  offer('chromium', 'browser', missing);
  // Report a missing browser, because one of the Kafka tests opens a page in it.
  if (part === 'kafka' && missing.length > 0) skipped.push({ suite: 'chromium', why: `needs ${missing}` });
}
if (isAll && isInPart('llamacpp'))
  offer('llamacpp', 'llamacpp', missingAfter('test/engines/install.mjs', 'llamacpp'));
// The unit tests also test the Helm chart if its tools are installed.
if (isAll && isInPart('unit')) {
  const missing = missingAfter('test/deploy/install.mjs');
  if (missing.length > 0) skipped.push({ suite: 'helm', why: `needs ${missing.join(' and ')}` });
}

/** Runs a script that installs something small into .cache. Returns what is still missing afterwards. */
function missingAfter(...script) {
  const { status, stderr } = spawnSync('node', script, { encoding: 'utf8' });
  const why = stderr.trim().split('\n').pop();
  return status === 0 ? [] : [why.replace(/^\w+: (needs )?/, '')];
}

const chosen = projects.filter(isInPart);
const args = ['--no-install', 'vitest', 'run', ...chosen.flatMap((project) => ['--project', project])];
const run = spawnSync('npx', [...args, ...rest], {
  stdio: 'inherit',
  env: { ...process.env, HEADGATE_TEST_TIER: tier },
});
for (const { suite, why } of skipped) console.error(`\n*** SKIPPED: the ${suite} suite ${why} ***`);
const isComplete = skipped.every(({ suite }) => !required.has(suite));
// An incomplete run has its own exit status, so that it can be told apart from failed tests.
process.exit(isComplete ? (run.status ?? 1) : 3);

// The test command: all suites that this machine can run, and a loud word about those it cannot.
// HEADGATE_REQUIRE=kafka,llamacpp turns a skip into a failure. Arguments are handed to vitest.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

const required = new Set((process.env.HEADGATE_REQUIRE ?? '').split(',').filter(Boolean));
const skipped = [];
const projects = ['unit', 'process'];

function has(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Adds a project whose needs are met; otherwise says what is missing. */
function offer(project, files, missing) {
  if (!files) return;
  if (missing.length === 0) projects.push(project);
  else skipped.push({ project, why: `needs ${missing.join(' and ')}` });
}

const kafkaMissing = [];
if (!has('java', ['-version'])) kafkaMissing.push('Java 17');
if (!has('mvn', ['-version'])) kafkaMissing.push('Maven');
offer('kafka', existsSync('test/kafka'), kafkaMissing);

offer('llamacpp', existsSync('test/engines'), llamacppMissing());

/** Installed on the way: it is small, and stays in .cache. */
function llamacppMissing() {
  const options = { encoding: 'utf8' };
  const { status, stderr } = spawnSync('node', ['test/engines/install.mjs', 'llamacpp'], options);
  const why = stderr.trim().split('\n').pop();
  return status === 0 ? [] : [why.replace(/^llamacpp: (needs )?/, '')];
}

const args = [
  'vitest',
  'run',
  ...projects.flatMap((project) => ['--project', project]),
  ...process.argv.slice(2),
];
const run = spawnSync('npx', ['--no-install', ...args], { stdio: 'inherit' });
for (const { project, why } of skipped) {
  console.error(`\n*** SKIPPED: the ${project} suite ${why} ***`);
  if (required.has(project)) process.exit(1);
}
process.exit(run.status ?? 1);

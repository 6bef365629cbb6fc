// Usage: node tools/scripts/test-verdict.mjs COMMAND... Runs a Vitest command and reports where its time went. If a file
// fails and its timing depends on the machine, the file runs once more, alone. Tests that then pass count as passed, but are
// listed like failures. The last line is `N passed, N failed`.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Projects, folders and helpers whose tests may fail on a busy machine. At most `againMax` failed files run again. */
const onMachine = ['process', 'kafka', 'browser', 'llamacpp'];
const fleets = 'test/';
const waits = /\/support\/until\.ts'/;
const againMax = 10;

const reporter = fileURLToPath(new URL('file-reporter.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'headgate-verdict-'));

/** Runs a command and returns its report. If there is no report, the run ended before its tests did. */
function run(command, args) {
  const path = join(folder, 'report.json');
  rmSync(path, { force: true });
  const { status } = spawnSync(command, [...args, '--reporter=default', `--reporter=${reporter}`], {
    stdio: 'inherit',
    env: { ...process.env, HEADGATE_TEST_REPORT: path },
  });
  try {
    return { status, ...JSON.parse(readFileSync(path, 'utf8')) };
  } catch {
    return { status: status || 1, files: [], unhandled: [] };
  }
}

function sum(files, numberOf) {
  return files.reduce((total, file) => total + numberOf(file), 0);
}

function printSeconds(files) {
  console.log('\nseconds of files, by project:');
  for (const project of new Set(files.map((file) => file.project))) {
    const own = files.filter((file) => file.project === project);
    const seconds = sum(own, (file) => file.seconds).toFixed(0);
    console.log(`${seconds.padStart(6)}  ${project} (${own.length} files)`);
  }
  console.log('the slowest files:');
  const slowest = [...files].sort((a, b) => b.seconds - a.seconds).slice(0, 10);
  for (const { file, seconds } of slowest) console.log(`${seconds.toFixed(0).padStart(6)}  ${file}`);
}

/** Runs a file alone. Returns its new result, or undefined unless all of its tests passed. */
function alone({ project, file }) {
  console.log(`\nonce more, alone: ${file}`);
  const words = ['--no-install', 'vitest', 'run', '--project', project, file];
  const { status, files } = run('npx', words);
  const again = files.find((one) => one.file === file);
  return status === 0 && again?.passed > 0 ? again : undefined;
}

const seeds = /\bseed["']?\s*[=:]\s*["']?-?\d+/gi;
function print(what, { file, failures }) {
  for (const { test, message } of failures) {
    console.log(`${what}: ${file}: ${test}: ${message.split('\n')[0]}`);
    for (const seed of new Set(message.match(seeds))) console.log(`  ${seed}`);
  }
}

const [command, ...args] = process.argv.slice(2);
const first = run(command, args);
printSeconds(first.files);
const failing = first.files.filter(({ failures }) => failures.length > 0);
const mayPass = failing.filter(
  ({ project, file }) =>
    onMachine.includes(project) || file.startsWith(fleets) || waits.test(readFileSync(file, 'utf8')),
);
const again = new Map();
if (mayPass.length <= againMax) for (const one of mayPass) again.set(one, alone(one));
const files = first.files.map((file) => again.get(file) ?? file);
for (const file of failing)
  print(again.get(file) === undefined ? 'failed' : 'passed only when run alone', file);
print('failed', { file: '(the run)', failures: first.unhandled });
// A failing exit status counts as a failure even if no test explains it, which happens if a suite cannot run here.
const isUnexplained =
  first.status !== 0 && (failing.length + first.unhandled.length === 0 || first.status !== 1);
if (isUnexplained) console.log(`failed: (the run): status ${first.status}`);
const failed =
  sum([...files, { failures: first.unhandled }], ({ failures }) => failures.length) + Number(isUnexplained);
console.log(`${sum(files, ({ passed }) => passed)} passed, ${failed} failed`);
rmSync(folder, { recursive: true, force: true });
process.exit(failed === 0 ? 0 : 1);

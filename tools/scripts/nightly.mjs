// `npm test -- --nightly [TEXT...]`: runs the long form of every test in sequence, unattended and for hours. A step that
// fails or reaches its deadline does not stop the next one. .cache/nightly/ contains the outputs and a report, which is
// updated after each step. TEXT selects the steps whose names contain it.
import { spawn, spawnSync } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join('.cache', 'nightly');
const script = (name, ...words) => [process.execPath, `tools/scripts/${name}.mjs`, ...words];
const built = (...words) => script('run-built', ...words);
const suite = script('test', '--all', '--tenfold');

/** Returns the names of the chaos scenarios, which the chaos command lists in its error if it is run without arguments. */
function chaosScenarios() {
  const { stderr } = spawnSync(process.execPath, ['dist/test/chaos/main.js'], { encoding: 'utf8' });
  return (/NAME is one of: (.*)/.exec(stderr)?.[1] ?? '').split(', ');
}

/** Steps, each with its name, its deadline in minutes and its command. */
const steps = () => [
  ['suite', 300, script('test-verdict', ...suite)],
  ['mutations', 120, built('test/mutation/main')],
  ['fuzz', 180, built('test/fuzz/main', '--seconds', '600')],
  ['soak', 60, built('test/soak/main')],
  ['soak-agents', 60, built('test/nodes/main')],
  ...chaosScenarios().map((name) => [`chaos-${name}`, 60, built('test/chaos/main', name)]),
  ['upgrade', 60, script('upgrade-test')],
  ['clients', 90, script('test-clients')],
  ['engines', 240, script('test-engines')],
  ['node-22', 120, script('test-node', '22')],
  ['node-24', 120, script('test-node', '24')],
];

let running;
function end(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // The process has already ended, so there is nothing to kill.
  }
}

/** Runs a step and resolves to its result. The step has its own process group, so that all of it ends at the deadline. */
function run([name, minutes, [command, ...args]]) {
  const path = join(folder, `${name}.log`);
  const output = createWriteStream(path);
  const startedAt = Date.now();
  return new Promise((resolve) => {
    const child = spawn(command, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let isLate = false;
    const deadline = setTimeout(() => {
      isLate = true;
      end(child, 'SIGKILL');
    }, minutes * 60_000);
    running = child;
    for (const stream of [child.stdout, child.stderr]) stream.pipe(output, { end: false });
    child.on('close', (status, signal) => {
      clearTimeout(deadline);
      running = undefined;
      const result = isLate
        ? `no end within ${minutes} minutes`
        : status === 0
          ? 'passed'
          : `failed (${status ?? signal})`;
      output.end(() => resolve({ name, result, path, seconds: Math.round((Date.now() - startedAt) / 1000) }));
    });
  });
}

const graceMs = 10_000;
const linesOfFailure = 40;
function reportOf(results) {
  const failed = results.filter(({ result }) => result !== 'passed');
  const rows = results.map(
    ({ name, result, seconds, path }) => `| ${name} | ${result} | ${seconds} | ${path} |`,
  );
  const ends = failed.map(({ name, path }) => {
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-linesOfFailure);
    return `## ${name}\n\n\`\`\`\n${lines.join('\n')}\n\`\`\`\n`;
  });
  const head = `# Nightly run\n\n${results.length - failed.length} passed, ${failed.length} failed.\n`;
  return [head, '| step | result | seconds | output |\n|---|---|--:|---|', ...rows, '', ...ends].join('\n');
}

/** Runs the steps whose names contain one of the texts, or all steps if no text is given. Resolves to an exit code. */
export async function runNightly(texts) {
  let isStopped = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => {
      isStopped = true;
      if (running === undefined) return;
      end(running, 'SIGTERM');
      setTimeout(end, graceMs, running, 'SIGKILL').unref();
    });
  mkdirSync(folder, { recursive: true });
  if (spawnSync(process.execPath, ['tools/scripts/build.mjs'], { stdio: 'inherit' }).status !== 0) return 1;
  const all = steps();
  const chosen = all.filter(([name]) => texts.length === 0 || texts.some((text) => name.includes(text)));
  if (chosen.length === 0) {
    console.error(`no step has such a name; there are ${all.map(([name]) => name).join(', ')}`);
    return 2;
  }
  const results = [];
  const report = join(folder, 'report.md');
  for (const step of chosen) {
    console.log(`${new Date().toISOString()} ${step[0]}`);
    const done = await run(step);
    results.push(done);
    console.log(`${done.name}: ${done.result}, ${done.seconds} s, ${done.path}`);
    writeFileSync(report, reportOf(results));
    if (isStopped) return 130;
  }
  console.log(report);
  return results.every(({ result }) => result === 'passed') ? 0 : 1;
}

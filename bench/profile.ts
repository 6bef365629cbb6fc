// Where the processor time of a saturated gateway goes: a CPU profile of its main thread after a warm-up, as the 25 functions with
// most time of their own, and as sums of libraries and folders. BENCH_SECONDS (15). The profile stays for a flame graph.
import { existsSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { saturate } from './support/load.ts';
import { startOnOneCore } from './support/one-core.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 15);
const warmUpSeconds = 20;
const connections = 64;
const shownMax = 25;

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
}
interface Profile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const path = join(tmpdir(), `headgate-${process.pid}.cpuprofile`);
const profiler = new URL('./support/profiler.js', import.meta.url).href;
const { pid, target, end } = await startOnOneCore(`--import=${profiler}`, { BENCH_PROFILE: path });

/** `node:…`, the name of a package, or the file. */
function ownerOf({ url, functionName }: ProfileNode['callFrame']): string {
  if (url === '') return functionName;
  const dependency = /node_modules\/([^/]+)/.exec(url)?.[1];
  if (dependency !== undefined) return dependency;
  return url.replace(/^.*\/dist\//, '').replace(/\/[^/]+$/, '/');
}

function nameOf({ url, functionName, lineNumber }: ProfileNode['callFrame']): string {
  const file = url.replace(/^.*\/(dist|node_modules)\//, '');
  const place = file === '' ? '' : ` ${file}:${lineNumber + 1}`;
  return `${functionName === '' ? '(anonymous)' : functionName}${place}`;
}

/** Shares of the busy time by a label, in tenths of a percent, most first. */
function shares(profile: Profile, label: (frame: ProfileNode['callFrame']) => string): [string, number][] {
  const byId = new Map(profile.nodes.map((node) => [node.id, node.callFrame]));
  const sums = new Map<string, number>();
  let busy = 0;
  for (const [at, sample] of profile.samples.entries()) {
    const frame = byId.get(sample);
    const micros = profile.timeDeltas[at] ?? 0;
    if (frame === undefined || frame.functionName === '(idle)') continue;
    busy += micros;
    sums.set(label(frame), (sums.get(label(frame)) ?? 0) + micros);
  }
  return [...sums]
    .sort(([, a], [, b]) => b - a)
    .slice(0, shownMax)
    .map(([name, micros]) => [name, Math.round((micros / busy) * 1000) / 10]);
}

async function written(): Promise<Profile> {
  while (!existsSync(path) || statSync(path).size === 0)
    await new Promise((resolve) => setTimeout(resolve, 100));
  return JSON.parse(readFileSync(path, 'utf8')) as Profile;
}

try {
  await saturate(target, connections, warmUpSeconds);
  process.kill(pid, 'SIGUSR2');
  const { requests } = await saturate(target, connections, seconds);
  process.kill(pid, 'SIGUSR2');
  const profile = await written();
  const functions = shares(profile, nameOf);
  const owners = shares(profile, ownerOf);
  console.table(functions.map(([name, percent]) => ({ percent, function: name })));
  console.table(owners.map(([name, percent]) => ({ percent, library: name })));
  console.log(JSON.stringify({ bench: 'profile', requests, path, functions, owners }));
} finally {
  await end();
}

/**
 * A fleet file by its number of organisations: `validate`, `diff`, `apply`, `apply` again and `export` on the command line,
 * before a control plane of its own. Of the control plane: the processor time of its main thread, and the longest turn of its
 * event loop, which is how long every other caller waits, on a busy machine too. The clock is that of the command. Then each
 * read of the table of operations that needs no parameter, on the fleet that is there. `--sizes N,N` names other sizes.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { adminOperations } from '../schemas/admin.ts';
import { operationNames, routeOf } from '../schemas/admin-routes.ts';
import type { OperationRow } from '../schemas/admin-row.ts';
import { sleep } from '../shared/runtime/retry.ts';
import { largeFleet } from '../test/support/large-fleet.ts';
import { operatorToken, type Plane, ProcessFleet } from '../test/support/process-fleet.ts';
import { binary } from '../test/support/processes.ts';

const { values } = parseArgs({ options: { sizes: { type: 'string' } } });
const sizes = values.sizes?.split(',').map(Number) ?? [1_000, 10_000];
const meter = new URL('../../test/support/turn-meter.mjs', import.meta.url).href;

interface Figures {
  readonly 'clock, s': number;
  readonly 'longest turn, ms': number;
  readonly 'its thread, s': number;
  readonly exit: number;
}

const seconds = (ms: number): number => Number((ms / 1000).toFixed(2));

/** Processor time of the main thread of a process so far, ms. */
function mainThreadMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}

class Bench {
  readonly #fleet: ProcessFleet;
  readonly #report: string;
  readonly #plane: Plane;

  constructor(fleet: ProcessFleet, report: string, plane: Plane) {
    this.#fleet = fleet;
    this.#report = report;
    this.#plane = plane;
  }

  /** The longest turn since it was asked last. */
  async #longestTurnMs(): Promise<number> {
    rmSync(this.#report, { force: true });
    process.kill(this.#plane.ready.pid, 'SIGUSR2');
    while (!existsSync(this.#report)) await sleep(20);
    return Number(readFileSync(this.#report, 'utf8'));
  }

  async measure(args: readonly string[], output: string): Promise<Figures> {
    const { pid } = this.#plane.ready;
    await this.#longestTurnMs();
    const [beganMs, threadMs] = [performance.now(), mainThreadMs(pid)];
    const exit = await this.#run(args, output);
    const clockMs = performance.now() - beganMs;
    const longestMs = await this.#longestTurnMs();
    return {
      'clock, s': seconds(clockMs),
      'longest turn, ms': Math.round(longestMs),
      'its thread, s': seconds(mainThreadMs(pid) - threadMs),
      exit,
    };
  }

  /** Of one call of each read that is answered without parameters, in ms. */
  async reads(): Promise<Record<string, object>> {
    const figures: Record<string, object> = {};
    for (const name of operationNames) {
      const { method, path } = routeOf(name);
      const { params, mediaType, opens }: OperationRow = adminOperations[name];
      if (method !== 'GET' || params !== undefined || mediaType !== undefined || opens === 'tail') continue;
      const { pid, admin } = this.#plane.ready;
      await this.#longestTurnMs();
      const threadMs = mainThreadMs(pid);
      const answer = await fetch(`${admin}/admin/v1${path}`, {
        headers: { authorization: `Bearer ${operatorToken}` },
      });
      const { length } = await answer.text();
      const longest = Math.round(await this.#longestTurnMs());
      if (!answer.ok) continue;
      const thread = Math.round(mainThreadMs(pid) - threadMs);
      figures[name] = { 'longest turn, ms': longest, 'its thread, ms': thread, bytes: length };
    }
    return figures;
  }

  /** `output` takes what it prints. */
  #run(args: readonly string[], output: string): Promise<number> {
    const env = {
      ...process.env,
      ...{ HEADGATE_ADMIN: this.#plane.ready.admin, HEADGATE_TOKEN: operatorToken, NO_COLOR: '1' },
    };
    const stdio: ('ignore' | 'pipe' | 'inherit')[] = ['ignore', 'pipe', 'inherit'];
    const child = spawn(process.execPath, [binary, ...args], { env, stdio, cwd: this.#fleet.dir });
    const pieces: Buffer[] = [];
    child.stdout?.on('data', (piece: Buffer) => pieces.push(piece));
    return new Promise((resolve) => {
      child.once('close', (code) => {
        writeFileSync(output, Buffer.concat(pieces));
        resolve(code ?? -1);
      });
    });
  }
}

async function figuresOf(organisations: number): Promise<Record<string, Record<string, object>>> {
  const fleet = new ProcessFleet();
  try {
    const report = join(fleet.dir, 'turns');
    const env = { HEADGATE_TEST_TURNS: report, NODE_OPTIONS: `--import ${meter}` };
    const bench = new Bench(fleet, report, await fleet.startPlane('plane', { env }));
    const [file, changed, exported, ignored] = ['fleet.json', 'changed.json', 'exported.yaml', 'output'].map(
      (name) => join(fleet.dir, name),
    ) as [string, string, string, string];
    const document = largeFleet(organisations);
    writeFileSync(file, JSON.stringify(document));
    const half = document.organisations?.map((each, n) => (n % 2 ? { ...each, name: `Other ${n}` } : each));
    writeFileSync(changed, JSON.stringify({ ...document, organisations: half }));
    const figures = {
      validate: await bench.measure(['validate', '-f', file], ignored),
      diff: await bench.measure(['diff', '-f', file], ignored),
      apply: await bench.measure(['apply', '-f', file], ignored),
      'apply, unchanged': await bench.measure(['apply', '-f', file], ignored),
      'diff, half changed': await bench.measure(['diff', '-f', changed], ignored),
      export: await bench.measure(['export'], exported),
      'validate, exported': await bench.measure(['validate', '-f', exported], ignored),
      'diff, exported': await bench.measure(['diff', '-f', exported], ignored),
    };
    return { files: figures, reads: await bench.reads() };
  } finally {
    await fleet.close();
  }
}

const bySize: Record<string, object> = {};
for (const organisations of sizes) {
  const figures = await figuresOf(organisations);
  console.log(`${organisations.toLocaleString('en')} organisations`);
  for (const table of Object.values(figures)) console.table(table);
  bySize[organisations] = figures;
}
console.log(JSON.stringify(bySize));

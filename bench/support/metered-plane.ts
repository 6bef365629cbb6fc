/**
 * A control plane of its own process whose event loop is measured: the processor time of its main thread, and the longest turn,
 * which is how long every other caller waits, on a busy machine too.
 */
import { type StdioOptions, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { sleep } from '../../shared/runtime/retry.ts';
import { type More, operatorToken, type Plane, type ProcessFleet } from '../../test/support/process-fleet.ts';
import { binary } from '../../test/support/processes.ts';
import { mainThreadMs } from './cpu.ts';

const meter = new URL('../../../test/support/turn-meter.mjs', import.meta.url).href;

export interface CommandFigures {
  readonly 'clock, s': number;
  readonly 'longest turn, ms': number;
  readonly 'its thread, s': number;
  readonly exit: number;
}

export const seconds = (ms: number): number => Number((ms / 1000).toFixed(2));

export class MeteredPlane {
  readonly plane: Plane;
  readonly #fleet: ProcessFleet;
  readonly #report: string;

  private constructor(fleet: ProcessFleet, report: string, plane: Plane) {
    this.#fleet = fleet;
    this.#report = report;
    this.plane = plane;
  }

  /** The same name means the same data folder. */
  static async start(fleet: ProcessFleet, name = 'plane', more: More = {}): Promise<MeteredPlane> {
    const report = join(fleet.dir, `${name}.turns`);
    const env = { ...more.env, HEADGATE_TEST_TURNS: report, NODE_OPTIONS: `--import ${meter}` };
    return new MeteredPlane(fleet, report, await fleet.startPlane(name, { ...more, env }));
  }

  get pid(): number {
    return this.plane.ready.pid;
  }

  /** Of its main thread so far. */
  threadMs(): number {
    return mainThreadMs(this.pid);
  }

  /** The longest turn since it was asked last. */
  async longestTurnMs(): Promise<number> {
    rmSync(this.#report, { force: true });
    process.kill(this.pid, 'SIGUSR2');
    while (!existsSync(this.#report)) await sleep(20);
    return Number(readFileSync(this.#report, 'utf8'));
  }

  /** Of a command line before it; `output` takes what that prints. The clock is that of the command. */
  async measure(args: readonly string[], output: string): Promise<CommandFigures> {
    await this.longestTurnMs();
    const [beganMs, threadMs] = [performance.now(), this.threadMs()];
    const exit = await this.#run(args, output);
    const clockMs = performance.now() - beganMs;
    const longestMs = await this.longestTurnMs();
    return {
      'clock, s': seconds(clockMs),
      'longest turn, ms': Math.round(longestMs),
      'its thread, s': seconds(this.threadMs() - threadMs),
      exit,
    };
  }

  #run(args: readonly string[], output: string): Promise<number> {
    const env = {
      ...process.env,
      ...{ HEADGATE_ADMIN: this.plane.ready.admin, HEADGATE_TOKEN: operatorToken, NO_COLOR: '1' },
    };
    const stdout = openSync(output, 'w');
    const stdio: StdioOptions = ['ignore', stdout, 'inherit'];
    const child = spawn(process.execPath, [binary, ...args], { env, cwd: this.#fleet.dir, stdio });
    return new Promise((resolve) => {
      child.once('close', (code) => {
        closeSync(stdout);
        resolve(code ?? -1);
      });
    });
  }
}

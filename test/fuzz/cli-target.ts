/**
 * Feeds hostile files to the command line: fleet files, exported logs, saved states, contexts. Each run must end in time with
 * a documented exit code and message, and must never print a stack trace. A few runs use a process of their own.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exitCodes } from '../../cli/terminal/errors.ts';
import { fleetSchema } from '../../schemas/events/fleet.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { demoFleet } from '../../tools/dev/demo-fleet.ts';
import { fleetHistory, recordsOf } from '../support/commits.ts';
import { runCli } from '../support/run-cli.ts';
import type { Note, RunningTarget, Target } from './campaign.ts';
import type { Draw, Json } from './draw.ts';
import { canary } from './fleet.ts';
import { jsonText, mutateBytes, mutateJson } from './mutate.ts';
import { valueFor } from './schema-draw.ts';
import { spoiltState } from './spoilt-state.ts';

const built = import.meta.url.includes('/dist/test/')
  ? '../../cli/headgate.js'
  : '../../dist/cli/headgate.js';
const binary = new URL(built, import.meta.url).pathname;
const ownProcessOneIn = 40;
const runMsMax = 40_000;

interface Run {
  readonly code: number;
  readonly err: string;
}

interface Command {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly content: Buffer;
}

export const cliTarget: Target = {
  name: 'cli',
  start: async () => new CliTarget(),
};

class CliTarget implements RunningTarget {
  readonly workers = 2;
  readonly #dir = mkdtempSync(join(tmpdir(), 'headgate-fuzz-cli-'));
  readonly #records = recordsOf(fleetHistory(3, 40));
  readonly #state: Buffer;
  readonly #good: Json;
  readonly #codes = new Map<number, number>();
  #serial = 0;

  constructor() {
    const path = join(this.#dir, 'good.db');
    const { snapshot } = openOrRebuild(path);
    snapshot.apply(this.#records);
    snapshot.close();
    this.#state = readFileSync(path);
    const url = 'http://127.0.0.1:1';
    this.#good = demoFleet({
      'pool-1': url,
      'acme-1': url,
      'acme-s1': url,
      'birch-s1': url,
    }) as unknown as Json;
  }

  async tryCase(draw: Draw, note: Note): Promise<string[]> {
    const file = join(this.#dir, `${this.#serial++}.file`);
    const { argv, env, content } = this.#command(draw, file);
    note(Buffer.concat([Buffer.from(`# ${argv.join(' ')} ${JSON.stringify(env)}\n`), content]));
    writeFileSync(file, content);
    try {
      const own = draw.below(ownProcessOneIn) === 0;
      const run = own ? await this.#process(argv, env) : await runCli(argv, { cwd: this.#dir, env });
      this.#codes.set(run.code, (this.#codes.get(run.code) ?? 0) + 1);
      return faultsOf(run).map((fault) => `${argv[0]} ${own ? '(process) ' : ''}${fault}`);
    } finally {
      for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true });
    }
  }

  #command(draw: Draw, file: string): Command {
    const env = { HEADGATE_TOKEN: 'fuzz-token-of-the-cli-0001' };
    return draw.weighted<() => Command>([
      [4, () => ({ argv: ['validate', '-f', file], env, content: this.#fleetFile(draw) })],
      [
        3,
        () => ({ argv: ['replay', file, ...this.#replayFlags(draw)], env, content: this.#exportedLog(draw) }),
      ],
      [
        2,
        () => ({
          argv: ['snapshot', 'inspect', file],
          env,
          content: spoiltState(draw, this.#state, this.#dir).bytes,
        }),
      ],
      [
        2,
        () => ({
          argv: draw.pick([
            ['key', 'list'],
            ['gateway', 'list'],
            ['replay', '--from-log'],
          ]),
          env: { ...env, HEADGATE_CONTEXT: file },
          content: this.#context(draw),
        }),
      ],
      [
        1,
        () => ({
          argv: ['apply', '-f', file, '--yes', '--admin', 'http://127.0.0.1:1'],
          env,
          content: this.#fleetFile(draw),
        }),
      ],
      [
        1,
        () => ({
          argv: ['key', 'list', '--token-file', file],
          env: {},
          content: draw.chance(0.5) ? draw.bytes(draw.skewed(9000)) : Buffer.from(draw.text()),
        }),
      ],
    ])();
  }

  #replayFlags(draw: Draw): string[] {
    return [
      ...(draw.chance(0.5) ? ['--verify'] : []),
      ...(draw.chance(0.3) ? ['--to', String(draw.number())] : []),
    ];
  }

  #fleetFile(draw: Draw): Buffer {
    const drawn = draw.chance(0.5)
      ? this.#good
      : valueFor({ draw, opaque: () => undefined, optional: 0.6 }, fleetSchema);
    let fleet = drawn;
    for (let time = draw.below(3); time > 0; time--) fleet = mutateJson(draw, fleet, 0.95);
    const text = draw.weighted<() => string>([
      [6, () => jsonText(draw, fleet)],
      [1, () => `a: &a [x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n`],
      [1, () => `${'a:\n '.repeat(draw.skewed(500))}x`],
      [1, () => `version: 1\nmodels: !!${draw.pick(['js/function', 'binary', 'map', 'x'])} ${draw.text()}\n`],
      [1, () => draw.text()],
    ])();
    const bytes = Buffer.from(text);
    return draw.chance(0.3) ? mutateBytes(draw, bytes) : bytes;
  }

  #exportedLog(draw: Draw): Buffer {
    const lines = this.#records.slice(0, draw.between(1, 40)).map(({ offset, value }) => {
      const line: Json = {
        offset,
        value: (draw.chance(0.97) ? value : mutateBytes(draw, value)).toString('base64'),
      };
      return draw.chance(0.98) ? JSON.stringify(line) : jsonText(draw, mutateJson(draw, line));
    });
    if (draw.chance(0.1))
      lines.splice(draw.below(lines.length), 0, draw.pick(['', 'null', '[]', '{}', canary]));
    const bytes = Buffer.from(lines.join(draw.chance(0.9) ? '\n' : '\r\n'));
    return draw.chance(0.2) ? mutateBytes(draw, bytes) : bytes;
  }

  #context(draw: Draw): Buffer {
    const context: Json = {
      admin: draw.pick(['http://127.0.0.1:1', 'http://[::1', 'file:///etc/passwd', '', 'x']),
      token: canary,
      log: draw.pick([`sqlite:${join(this.#dir, 'no-log')}`, 'kafka://', 'sqlite:', 'memory:x', 'x']),
      dataDir: this.#dir,
      gateways: [{ name: 'a', dataDir: this.#dir }],
    };
    const bytes = Buffer.from(
      jsonText(draw, draw.chance(0.7) ? mutateJson(draw, context, 0.9) : draw.json()),
    );
    return draw.chance(0.2) ? mutateBytes(draw, bytes) : bytes;
  }

  #process(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Run> {
    const options = { cwd: this.#dir, timeout: runMsMax, env: { PATH: process.env['PATH'], ...env } };
    return new Promise((resolve) => {
      execFile(process.execPath, [binary, ...argv], options, (error, _out, err) =>
        resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1, err }),
      );
    });
  }

  faults(): string[] {
    return [];
  }
  warmedUp(): Promise<void> {
    return Promise.resolve();
  }
  settle(): Promise<void> {
    return Promise.resolve();
  }
  figures(): Record<string, number> {
    return Object.fromEntries([...this.#codes].map(([code, count]) => [`with status ${code}`, count]));
  }
  async close(): Promise<void> {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/**
 * Checks the exit code of a run and the form of its error against the docs. Unexpected failures and printed secrets are
 * faults.
 */
function faultsOf({ code, err }: Run): string[] {
  const faults: string[] = [];
  if (!Object.hasOwn(exitCodes, code)) faults.push(`ended with status ${code}: ${err.slice(0, 300)}`);
  if (/\n\s+at .+:\d+:\d+/.test(err)) faults.push(`showed a stack trace: ${err.slice(0, 600)}`);
  if (/^error\[Failure\]/m.test(err))
    faults.push(`failed in words that nobody foresaw: ${err.slice(0, 300)}`);
  const isError =
    /^error\[\w+\]: .+\n([\s\S]*\n)? {2}more {2}headgate help exit-codes \(this is \d+\)\n$/.test(err) ||
    // Errors in a fleet file are printed one per line, each with its position in the file.
    (code === 2 && err.split('\n').every((line) => line === '' || /^\S+:\d+:\d+ .+$/.test(line)));
  if (code !== 0 && code !== 1 && !isError) faults.push(`has no error of the form: ${err.slice(0, 300)}`);
  if (err.includes(canary)) faults.push(`showed a secret: ${err.slice(0, 300)}`);
  return faults;
}

/** Context of one command. Commands must use its options, client and output, so that tests can replace them. */
import type { Command } from 'commander';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { isTurning } from '../../schemas/admin/turned-answers.ts';
import { printable } from '../../schemas/printable.ts';
import {
  AdminClient,
  type ClientOptions,
  EffectFound,
  type StageOptions,
} from '../admin-client/admin-client.ts';
import { AdminError } from '../admin-client/admin-error.ts';
import { Exit, interrupted, toCliError, usageError } from './errors.ts';
import type { Io } from './io.ts';
import type { Format } from './options.ts';
import { Renderer } from './render.ts';
import { resolveSettings } from './settings.ts';
import { commandWords } from './usage-errors.ts';

/** Global options, which every command accepts. */
export interface Globals {
  readonly output?: Format;
  /** Past state to show: a log position, a time, or an age. */
  readonly at?: string;
  readonly ifAt?: number;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly effect?: boolean;
  /** This option and the next four apply only to commands whose changes can be released in waves. */
  readonly stage?: boolean;
  readonly waves?: string;
  readonly hold?: string;
  readonly watch?: string;
  readonly advanceUnseen?: boolean;
  readonly commandId?: string;
  readonly why?: string;
  readonly as?: string;
  readonly force?: boolean;
  readonly quiet?: boolean;
  /** Set to false by --no-color. */
  readonly color?: boolean;
  readonly admin?: string;
  readonly tokenFile?: string;
}

function stageOptions({ stage, waves, hold, watch, advanceUnseen }: Globals): StageOptions | undefined {
  if (stage) return { waves, hold, watch, advanceUnseen };
  if (waves === undefined && hold === undefined && advanceUnseen === undefined) return undefined;
  throw usageError('--waves, --hold and --advance-unseen need a staged change', 'add --stage');
}

const progressEveryMs = 2000;

export class Session {
  readonly io: Io;
  readonly globals: Globals;
  readonly signal: AbortSignal;
  readonly out: Renderer;
  #client: Promise<AdminClient> | undefined;
  #isEffectNoted = false;

  constructor(io: Io, globals: Globals, signal: AbortSignal) {
    this.io = io;
    this.globals = globals;
    this.signal = signal;
    this.out = new Renderer(io, globals.output ?? 'table', globals.color !== false);
  }

  /** Returns the client for the admin API. Rejects with a `CliError` if no token is configured for the address. */
  api(): Promise<AdminClient> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  /** Returns a client that reads the present state, for commands that otherwise show a past one. */
  presentApi(): Promise<AdminClient> {
    return this.#connect({ at: undefined });
  }

  /** Returns a client for a command that may need several commits: for its first call, or for the next ones. */
  apiInParts(call: 'first' | 'next'): Promise<AdminClient> {
    // Options that name a position or an id apply only to the first call.
    const own = call === 'next' && { ifAt: undefined, commandId: undefined, announce: undefined };
    return this.#connect({ inParts: true, ...own });
  }

  #connect(other: ClientOptions = {}): Promise<AdminClient> {
    return resolveSettings(this.io, this.globals).then(
      (settings) =>
        new AdminClient(settings, {
          person: this.globals.as,
          at: this.globals.at,
          ifAt: this.globals.ifAt,
          why: this.globals.why,
          force: this.globals.force,
          dryRun: this.globals.dryRun,
          effect: this.globals.effect,
          stage: stageOptions(this.globals),
          commandId: this.globals.commandId,
          announce: (name, input) => this.#announce(name, input),
          signal: this.signal,
          ...other,
        }),
    );
  }

  /** Whether the command changes nothing, because of --dry-run or --effect. */
  get writesNothing(): boolean {
    return this.globals.dryRun === true || this.globals.effect === true;
  }

  /** On a terminal, prints a command's effect before the command is sent, even if it needs no confirmation. */
  async #announce(name: OperationName, input: object): Promise<void> {
    const { io, globals } = this;
    const isWatched = io.stdin.isTTY && io.stderr.isTTY && !globals.yes && !globals.quiet;
    if (isWatched && !this.writesNothing && !this.#isEffectNoted)
      await this.noteEffect(name, input, 'a sentence');
  }

  /** Prints which responses a command would change, if any. Does not throw if the effect cannot be determined. */
  async noteEffect(name: OperationName, input: object, what: 'all' | 'a sentence'): Promise<void> {
    if (!isTurning(name)) return;
    this.#isEffectNoted = true;
    const { effectNotes } = await import('./effect-lines.ts');
    const asked = { api: await this.api(), out: this.out };
    const found = effectNotes(asked, { name, input }, what).catch((error: unknown) => {
      if (this.signal.aborted) throw interrupted();
      // Say nothing, because the command itself will be refused for the same reason.
      if (what === 'a sentence' && error instanceof AdminError && (error.status ?? 500) < 500) return [];
      return [`its effect is not known: ${error instanceof Error ? error.message : String(error)}`];
    });
    for (const text of await found) this.note(text);
  }

  /** Prints a hint or progress to stderr, unless --quiet is set. */
  note(text: string): void {
    if (!this.globals.quiet) this.io.stderr.write(`${printable(text)}\n`);
  }

  /** Returns a function that prints the progress of long work, at most every two seconds. */
  progress(): (text: string) => void {
    let reportedMs = performance.now();
    return (text) => {
      if (performance.now() - reportedMs < progressEveryMs) return;
      this.note(text);
      reportedMs = performance.now();
    };
  }

  /** Returns a renderer that uses `format` unless --output was given. */
  defaultFormat(format: Format): Renderer {
    return new Renderer(this.io, this.globals.output ?? format, this.globals.color !== false);
  }
}

/** Handler of a command. `options` contains the command's own options and the global ones. Operands follow in order. */
export type Work<Options> = (
  session: Session,
  options: Options & Globals,
  ...operands: string[]
) => Promise<void>;

/** Commands that show only the present, so the CLI refuses --at. For other commands, the control plane may refuse it. */
const presentOnly: ReadonlySet<string> = new Set([
  'validate',
  'gateway verify',
  'snapshot inspect',
  'backup',
  'events tail',
  'requests',
  'replay',
]);

/** Subcommands that accept --at although their parent command does not. */
const acceptsPast: ReadonlySet<string> = new Set(['replay decide']);

function refusePast(command: Command, { at }: Globals): void {
  const names = commandWords(command);
  const known = [names[0], names.slice(0, 2).join(' ')].find((name) => presentOnly.has(name ?? ''));
  if (at !== undefined && known !== undefined && !acceptsPast.has(names.join(' ')))
    throw usageError(`${names.join(' ')} shows only the present: leave out --at`);
}

/** Commands whose --effect is refused, because they write only to this machine. */
const localWriters: ReadonlySet<string> = new Set(['backup', 'console']);

function refuseEffect(command: Command, { effect }: Globals): void {
  const names = commandWords(command);
  if (effect && localWriters.has(names[0] ?? ''))
    throw usageError(`${names.join(' ')} does not change any answer: leave out --effect`);
}

/** Prints a command's effect instead of its result. Exits with 0 if no response would change, and with 1 otherwise. */
async function endWithEffect({ out }: Session, { effect }: EffectFound): Promise<void> {
  const { showEffect } = await import('./effect-lines.ts');
  if (await showEffect(out, effect)) throw new Exit(1);
}

/** Wraps a handler for commander. Ctrl-C aborts the call in flight. */
export function action<Options>(io: Io, work: Work<Options>): (...passed: unknown[]) => Promise<void> {
  return async (...passed) => {
    const command = passed.at(-1) as Command;
    const options = command.optsWithGlobals<Options & Globals>();
    const { signal, release } = io.interrupted();
    const session = new Session(io, options, signal);
    try {
      refusePast(command, options);
      refuseEffect(command, options);
      await work(session, options, ...(passed.slice(0, -2) as string[]));
    } catch (error) {
      if (error instanceof EffectFound) return await endWithEffect(session, error);
      throw error instanceof Error && error.name === 'Exit' ? error : toCliError(error);
    } finally {
      release();
    }
  };
}

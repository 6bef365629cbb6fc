/**
 * The way of a command to the log: fold to the head → validate → dry-run → append → wait until our own fold accepts a
 * record at that place. The chain turns the log's order into compare-and-append, so any number of replicas may run this
 * at once without a leader or a lock. A command is answered only when its fate is decided: done, refused, or, where the
 * log cannot be seen for too long, OutcomeUnknown, and then repeating it with the same id decides.
 */
import { randomUUID } from 'node:crypto';
import { genesisPrev } from '../../schemas/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events.ts';
import { type CommitDraft, CommitTooLarge, composeCommit, recordHash } from '../../shared/log/core/chain.ts';
import { AppendUnknown, type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import { checkMaySign } from './log-signing.ts';
import { checkReaders, type LogReader } from './rolling-upgrade.ts';

/** Lost races before a command is refused. */
const attemptsMax = 12;
/** How long a command may wait for the log, in all its attempts. */
const deadlineMs = 10_000;
/** Commands that wait for their turn on this replica. */
const queueMax = 1000;

/** What a command would change, worked out from the state it is shown. */
export interface Decision<Result> {
  /** Empty: there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** Reads the thing as it is once the events are folded. */
  readonly result: () => Result;
}

export interface Command<Result> {
  /** From the Idempotency-Key; a repeat carries the same. */
  readonly id: string;
  /** SHA-256 of the command's canonical text: a repeat must be the same command. */
  readonly hash: string;
  readonly by: string;
  readonly why?: string | undefined;
  /** Refuse unless the state is at this position. */
  readonly ifAt?: number | undefined;
  readonly dryRun?: boolean | undefined;
  /** Also where a gateway does not know the events yet. */
  readonly force?: boolean | undefined;
  /** Throws CommandError unless the actor may give it. Asked first: a refusal must not show what others have sent. */
  authorise?(): void;
  /** Pure over the state at the head; throws CommandError. Called once an attempt. */
  decide(nowMs: number): Decision<Result>;
  /** The answer to a repeat, from the id of what the first run made. */
  repeated(subject: string | null): Result;
}

export interface Outcome<Result> {
  readonly result: Result;
  readonly position: number;
  readonly status: 'done' | 'unchanged' | 'repeated' | 'dry-run';
}

export interface CommandPathOptions {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly log: ControlLog;
  readonly signer?: Signer | undefined;
  /** Who must have begun the log; only asked before this replica begins one. */
  readonly trusted?: TrustedSigners | undefined;
  /** Who must know what is written; see rolling-upgrade.ts. */
  readonly readers?: () => readonly LogReader[] | undefined;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
}

export class CommandPath {
  readonly #options: CommandPathOptions;
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(options: CommandPathOptions) {
    this.#options = options;
  }

  /** Runs one command after those before it. Rejects with CommandError. */
  async run<Result>(command: Command<Result>): Promise<Outcome<Result>> {
    if (this.#waiting >= queueMax)
      throw new CommandError('LogUnavailable', 'too many commands are waiting', {
        next: 'try again in a moment',
      });
    this.#waiting++;
    const turn = this.#turn.then(() => this.#attempts(command));
    this.#turn = turn.catch(() => undefined);
    try {
      return await turn;
    } catch (error) {
      throw asCommandError(error, command.id);
    } finally {
      this.#waiting--;
    }
  }

  async #attempts<Result>(command: Command<Result>): Promise<Outcome<Result>> {
    const until = performance.now() + deadlineMs;
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      await this.#options.replicator.caughtUp(left(until));
      const outcome = await this.#attempt(command, until);
      if (outcome) return outcome;
    }
    throw new CommandError(
      'Conflict',
      `others changed the state ${attemptsMax} times while this command was tried`,
      {
        next: 'repeat the command',
      },
    );
  }

  /** One try at the next place of the chain; undefined where another record took it. */
  async #attempt<Result>(command: Command<Result>, until: number): Promise<Outcome<Result> | undefined> {
    const { snapshot, log, signer, now = Date.now } = this.#options;
    command.authorise?.();
    const before = snapshot.journal.commandOf(command.id);
    if (before) return this.#repeat(command, before);
    checkMaySign(snapshot.head.signers, signer);
    if (command.ifAt !== undefined && command.ifAt !== snapshot.seq)
      throw new CommandError(
        'PositionMoved',
        `the state is at position ${snapshot.seq}, not ${command.ifAt}`,
        {
          next: 'look at what changed, then repeat with the new position',
        },
      );
    const nowMs = now();
    const { events, result } = command.decide(nowMs);
    if (events.length === 0) return { result: result(), position: snapshot.seq, status: 'unchanged' };
    this.#checkReaders(command, events);
    const seq = snapshot.seq + 1;
    const stored = events.map(toStored);
    const previewed = this.#preview(events, { seq, atMs: nowMs, by: command.by }, result);
    if (command.dryRun) return { result: previewed, position: snapshot.seq, status: 'dry-run' };

    const at = new Date(nowMs).toISOString();
    const draft = { id: command.id, command: command.hash, at, by: command.by, events: stored };
    const record = this.#compose(command.why === undefined ? draft : { ...draft, why: command.why });
    const noOp = this.#compose({
      ...draft,
      id: `no-op-${randomUUID()}`,
      events: [toStored({ type: 'no_op', data: {} })],
    });
    try {
      await log.append(record, signer?.sign(record) ?? null);
    } catch (error) {
      if (!(error instanceof AppendUnknown)) throw error;
      // Whichever of the two stands first at this place decides, and the later one can never apply.
      await this.#appendUntilKnown(noOp, until);
    }
    if (!(await this.#isFolded(seq, until))) throw outcomeUnknown(command.id);
    // By its bytes, not by its id: another replica may have run the same command with another key value in it.
    if (snapshot.journal.commandAt(seq)?.record !== recordHash(record)) return undefined;
    return { result: previewed, position: seq, status: 'done' };
  }

  /** False as well where the fold stopped: the record is in the log, and whether it counts is not known here. */
  async #isFolded(seq: number, until: number): Promise<boolean> {
    return this.#options.replicator.reached(seq, left(until)).catch(() => false);
  }

  #checkReaders(
    { force = false }: { readonly force?: boolean | undefined },
    events: readonly KnownEvent[],
  ): void {
    const { readers } = this.#options;
    if (readers && !force) checkReaders(events, readers);
  }

  #repeat<Result>(
    command: Command<Result>,
    before: { seq: number; hash: string | null; subject: string | null },
  ): Outcome<Result> {
    if (before.hash !== command.hash)
      throw new CommandError('Conflict', 'another command was sent with this Idempotency-Key', {
        next: 'send each command with an Idempotency-Key of its own',
      });
    return { result: command.repeated(before.subject), position: before.seq, status: 'repeated' };
  }

  /** The thing as it would be, folded in a savepoint by the very code that folds it for good. */
  #preview<Result>(
    events: readonly KnownEvent[],
    context: { seq: number; atMs: number; by: string },
    result: () => Result,
  ): Result {
    const { snapshot } = this.#options;
    const passedOver = snapshot.dryRun(events, context);
    if (passedOver.length > 0)
      throw new Error(`the fold would pass over an event of this command: ${passedOver[0]}`);
    return snapshot.preview(events, context, result);
  }

  #compose(draft: Omit<CommitDraft, 'head' | 'log'>): Buffer {
    return composeCommit({ ...draft, head: this.#options.snapshot.head });
  }

  async #appendUntilKnown(noOp: Buffer, until: number): Promise<void> {
    const { log, signer } = this.#options;
    for (let waitMs = 20; performance.now() < until; waitMs = Math.min(waitMs * 2, 500)) {
      try {
        await log.append(noOp, signer?.sign(noOp) ?? null);
        return;
      } catch (error) {
        if (!(error instanceof AppendUnknown) && !(error instanceof LogUnavailable)) throw error;
        await new Promise((resolve) => setTimeout(resolve, Math.min(waitMs, left(until))));
      }
    }
  }
}

/** Writes `log.created` where the log is empty; of several replicas at once the first wins. */
export async function createLog(options: CommandPathOptions, logId: string, by: string): Promise<void> {
  const { snapshot, replicator, log, signer, trusted } = options;
  await replicator.caughtUp(deadlineMs);
  if (snapshot.seq > 0) return;
  if (trusted && !(signer && trusted.has(signer.publicKey)))
    throw new Error(
      'the log is empty, and only a signer of --trust-signer may begin it; set HEADGATE_SIGNING_KEY to the key of one',
    );
  const data = signer ? { log: logId, signers: [signer.publicKey] } : { log: logId };
  const record = composeCommit({
    head: { log: logId, seq: 0, hash: genesisPrev, signers: [] },
    id: `create-${logId}`,
    at: new Date().toISOString(),
    by,
    events: [toStored({ type: 'log.created', data })],
  });
  try {
    await log.append(record, signer?.sign(record) ?? null);
  } catch (error) {
    if (!(error instanceof AppendUnknown)) throw error;
  }
  if (!(await replicator.reached(1, deadlineMs)))
    throw new LogUnavailable('the new log could not be read back in time');
}

function left(until: number): number {
  return Math.max(1, until - performance.now());
}

function outcomeUnknown(id: string): CommandError {
  return new CommandError('OutcomeUnknown', `whether command ${id} was carried out cannot be seen now`, {
    next: 'repeat it with the same Idempotency-Key',
  });
}

function asCommandError(error: unknown, id: string): unknown {
  if (error instanceof CommitTooLarge)
    return new CommandError('CommandTooLarge', error.message, { next: 'split it into smaller commands' });
  if (error instanceof AppendUnknown) return outcomeUnknown(id);
  return asFollowError(error) ?? error;
}

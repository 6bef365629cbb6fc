/**
 * Writes commands to the log: authorise → wait for the turn → fold to the head → authorise → plan → preview → append → wait
 * until the own fold accepts a record at that position. The chain turns the log's order into compare-and-append, so any number of replicas may run
 * this at once without a leader or a lock. A command is answered only when its outcome is known: done, refused, or
 * OutcomeUnknown where the log cannot be read in time, and then a repeat with the same id decides.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { genesisPrev, type Via } from '../../schemas/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events.ts';
import { type CommitDraft, CommitTooLarge, composeCommit, recordHash } from '../../shared/log/core/chain.ts';
import { AppendUnknown, type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import { Backoff, sleep } from '../../shared/runtime/retry.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { type Actor, actorName } from '../commands/authorise.ts';
import { commandHash } from '../commands/command-hash.ts';
import {
  authoriseCommand,
  type CommandContext,
  type CommandDefinition,
  type CommandInput,
  commandAnswer,
  formOf,
  parseInput,
  planCommand,
  type SigningView,
} from '../commands/definition.ts';
import { CommandError } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import type { QueueCaller } from '../state/caller-queue.ts';
import { findBounds } from '../state/catalog.ts';
import { CommandShares, commandCaller, sessionCaller, theReplica } from './command-shares.ts';
import { checkMaySign } from './log-signing.ts';
import { checkReaders, type LogReader } from './rolling-upgrade.ts';

/** Attempts, each lost to another writer, before a command is refused. */
const attemptsMax = 12;
/** How long a command may wait for the log, in all its attempts. */
const timeoutMs = 10_000;

/** Of one command, in addition to its definition and input. */
export interface CommandRequest {
  /** From the Idempotency-Key; a repeat carries the same. */
  readonly id: string;
  readonly actor: Actor;
  readonly why?: string | undefined;
  readonly via?: Via | undefined;
  /** Refuse unless the state is at this position. */
  readonly ifAt?: number | undefined;
  readonly dryRun?: boolean | undefined;
  /** Skip the guards, and the check that all gateways know the events. */
  readonly force?: boolean | undefined;
  /** For the guard of periods. */
  readonly used?: CommandContext['used'];
}

export interface CommandResult {
  readonly answer: object;
  readonly position: number;
  readonly status: 'done' | 'unchanged' | 'repeated' | 'dry-run';
  /** What would be written, of a dry run. */
  readonly events?: readonly KnownEvent[];
}

/** A command of the admin API or of this replica, with its context bound. */
interface BoundCommand extends Omit<CommandRequest, 'actor'> {
  /** SHA-256 of the command's canonical text: a repeat must be the same command. */
  readonly hash: string;
  readonly by: string;
  /** Throws CommandError. Runs first: a refusal must not show what others have sent. */
  authorise?(): void;
  /** Pure over the state at the head; throws CommandError. Called once an attempt. No events: there is nothing to change. */
  plan(nowMs: number): { readonly events: readonly KnownEvent[]; readonly answer: () => object };
  /** The answer to a repeat, from the id of what the first run created. */
  repeated(subject: string | null): object;
}

export interface CommandWriterOptions {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly log: ControlLog;
  readonly signer?: Signer | undefined;
  /** Who must have created the log; only checked before this replica creates one. */
  readonly trusted?: TrustedSigners | undefined;
  /** Who must know what is written; see rolling-upgrade.ts. */
  readonly readers?: () => readonly LogReader[] | undefined;
  /** For commands that change the signers. */
  readonly signing?: () => SigningView;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
}

export class CommandWriter {
  readonly #options: CommandWriterOptions;
  readonly #shares = new CommandShares();
  #catchingUp: Promise<void> = Promise.resolve();
  #nextCatchUp: Promise<void> | undefined;

  constructor(options: CommandWriterOptions) {
    this.#options = options;
  }

  /** Runs one command of the admin API. Rejects with CommandError. */
  run(
    of: CommandDefinition,
    raw: { readonly params?: unknown; readonly body?: unknown },
    request: CommandRequest,
  ): Promise<CommandResult> {
    return this.#asCommand(request.id, async () => {
      const { db } = this.#options.snapshot;
      const { actor } = request;
      const definition = formOf(of, raw.body);
      this.#shares.countPerson(actor, findBounds(db));
      const input = parseInput(definition, raw);
      const authorise = (): void => authoriseCommand(definition, db, input, actor);
      await this.#checkBeforeTurn(authorise);
      const organisation = actor.person === undefined ? undefined : definition.organisationOf?.(db, input);
      if (organisation !== undefined) this.#shares.countOrganisation(organisation, findBounds(db));
      const command = this.#bind(definition, input, request, authorise);
      return this.#inTurn(commandCaller(actor, organisation), command);
    });
  }

  #bind(
    definition: CommandDefinition,
    input: CommandInput,
    request: CommandRequest,
    authorise: () => void,
  ): BoundCommand {
    const { snapshot, signing, now = Date.now } = this.#options;
    const { db } = snapshot;
    const { actor, force, dryRun, used } = request;
    return {
      ...request,
      hash: commandHash(definition.name, input.params, input.body),
      by: actorName(actor),
      authorise,
      plan: (nowMs) => {
        const context: CommandContext = {
          nowMs,
          actor,
          mint: randomBytes,
          signing: signing?.(),
          force,
          dryRun,
          used,
        };
        const plan = planCommand(definition, db, input, context);
        return { events: plan.events, answer: () => commandAnswer(definition, db, input, plan, context) };
      },
      repeated: (subject) => definition.show(db, input, subject ?? undefined, now()),
    };
  }

  /** Writes events of this replica itself, worked out from the state at the head. Rejects with CommandError. */
  write(id: string, by: string, events: () => readonly KnownEvent[], via?: Via): Promise<void> {
    return this.#asCommand(id, () => this.#write(theReplica, { id, by, via }, events));
  }

  /** Writes what begins or ends a session. What `events` refuses is refused before it waits, and takes no share. */
  writeOfSession(
    actor: Actor,
    { id, by }: { readonly id: string; readonly by: string },
    events: () => readonly KnownEvent[],
  ): Promise<void> {
    return this.#asCommand(id, async () => {
      await this.#checkBeforeTurn(events);
      await this.#write(sessionCaller(actor, id), { id, by, via: 'console' }, events);
    });
  }

  async #write(
    caller: QueueCaller,
    command: Pick<BoundCommand, 'id' | 'by' | 'via'>,
    events: () => readonly KnownEvent[],
  ): Promise<void> {
    const answer = (): object => ({});
    const plan = () => ({ events: events(), answer });
    await this.#inTurn(caller, { ...command, hash: command.id, plan, repeated: answer });
  }

  async #asCommand<Result>(id: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      throw asCommandError(error, id);
    }
  }

  /** What is refused waits in no queue. Where this replica may be behind the log, the head decides. */
  async #checkBeforeTurn(check: () => void): Promise<void> {
    try {
      check();
    } catch {
      await this.#caughtUp();
      check();
    }
  }

  /** The state at the end of the log, or a later one; calls at once share one. */
  #caughtUp(): Promise<void> {
    this.#nextCatchUp ??= this.#catchingUp.then(() => {
      this.#nextCatchUp = undefined;
      const work = this.#options.replicator.caughtUp(timeoutMs);
      this.#catchingUp = work.catch(() => undefined);
      return work;
    });
    return this.#nextCatchUp;
  }

  /** One command at a time on this replica; callers alternate. */
  async #inTurn(caller: QueueCaller, command: BoundCommand): Promise<CommandResult> {
    const end = await this.#shares.turn(caller);
    try {
      return await this.#attempts(command);
    } finally {
      end();
    }
  }

  async #attempts(command: BoundCommand): Promise<CommandResult> {
    const deadline = performance.now() + timeoutMs;
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      await this.#options.replicator.caughtUp(remainingMs(deadline));
      const result = await this.#attempt(command, deadline);
      if (result) return result;
    }
    throw new CommandError(
      'Conflict',
      `others changed the state ${attemptsMax} times while this command was tried`,
      {
        next: 'repeat the command',
      },
    );
  }

  /** One attempt at the next position of the chain; undefined where another record took it. */
  async #attempt(command: BoundCommand, deadline: number): Promise<CommandResult | undefined> {
    const { snapshot, log, signer, now = Date.now } = this.#options;
    command.authorise?.();
    const before = snapshot.journal.commandOf(command.id);
    if (before) return repeat(command, before);
    checkMaySign(snapshot.head.signers, signer);
    checkPosition(command, snapshot.seq);
    const nowMs = now();
    const { events, answer } = command.plan(nowMs);
    if (events.length === 0) return { answer: answer(), position: snapshot.seq, status: 'unchanged' };
    this.#checkReaders(command, events);
    const seq = snapshot.seq + 1;
    const stored = events.map(toStored);
    const previewed = this.#preview(events, { seq, atMs: nowMs, by: command.by }, answer);
    if (command.dryRun) return { answer: previewed, position: snapshot.seq, status: 'dry-run', events };

    const at = new Date(nowMs).toISOString();
    const { why, via } = command;
    const draft = { id: command.id, command: command.hash, at, by: command.by, events: stored };
    const record = this.#compose({ ...draft, ...(why !== undefined && { why }), ...(via && { via }) });
    const noOp = this.#compose({
      ...draft,
      id: `no-op-${randomUUID()}`,
      events: [toStored({ type: 'no_op', data: {} })],
    });
    try {
      await log.append(record, signer?.sign(record) ?? null);
    } catch (error) {
      if (!(error instanceof AppendUnknown)) throw error;
      // Whichever of the two is first at this position decides, and the later one can never apply.
      await this.#appendUntilKnown(noOp, deadline);
    }
    if (!(await this.#isFolded(seq, deadline))) throw outcomeUnknown(command.id);
    // By its bytes, not by its id: another replica may have run the same command with another key value in it.
    if (snapshot.journal.commandAt(seq)?.record !== recordHash(record)) return undefined;
    return { answer: previewed, position: seq, status: 'done' };
  }

  /** Also false where the fold stopped: the record is in the log, and whether it counts is not known here. */
  async #isFolded(seq: number, deadline: number): Promise<boolean> {
    return this.#options.replicator.reached(seq, remainingMs(deadline)).catch(() => false);
  }

  #checkReaders({ force = false }: BoundCommand, events: readonly KnownEvent[]): void {
    const { readers } = this.#options;
    if (readers && !force) checkReaders(events, readers);
  }

  /** The answer on the state with these events, folded in a savepoint by the code that will fold the record. */
  #preview(
    events: readonly KnownEvent[],
    context: { seq: number; atMs: number; by: string },
    answer: () => object,
  ): object {
    return this.#options.snapshot.stateAt({ kind: 'previewed', events, context }, (_state, passedOver) => {
      if (passedOver.length > 0)
        throw new Error(`the fold would pass over an event of this command: ${passedOver[0]}`);
      return answer();
    });
  }

  #compose(draft: Omit<CommitDraft, 'head' | 'log'>): Buffer {
    return composeCommit({ ...draft, head: this.#options.snapshot.head });
  }

  async #appendUntilKnown(noOp: Buffer, deadline: number): Promise<void> {
    const { log, signer } = this.#options;
    const backoff = new Backoff({ minMs: 20, maxMs: 500 });
    while (performance.now() < deadline) {
      try {
        await log.append(noOp, signer?.sign(noOp) ?? null);
        return;
      } catch (error) {
        if (!(error instanceof AppendUnknown) && !(error instanceof LogUnavailable)) throw error;
        await sleep(Math.min(backoff.nextMs(), remainingMs(deadline)));
      }
    }
  }
}

/** Throws CommandError Conflict where the id was used for another command. */
function repeat(
  command: BoundCommand,
  before: { seq: number; hash: string | null; subject: string | null },
): CommandResult {
  if (before.hash !== command.hash)
    throw new CommandError('Conflict', 'another command was sent with this Idempotency-Key', {
      next: 'send each command with an Idempotency-Key of its own',
    });
  return { answer: command.repeated(before.subject), position: before.seq, status: 'repeated' };
}

function checkPosition({ ifAt }: BoundCommand, seq: number): void {
  if (ifAt === undefined || ifAt === seq) return;
  throw new CommandError('PositionMoved', `the state is at position ${seq}, not ${ifAt}`, {
    next: 'check what changed, then repeat with the new position',
  });
}

/** Writes `log.created` where the log is empty; of several replicas at once the first wins. */
export async function createLog(options: CommandWriterOptions, logId: string, by: string): Promise<void> {
  const { snapshot, replicator, log, signer, trusted } = options;
  await replicator.caughtUp(timeoutMs).catch((error: unknown) => {
    // A log that is long enough to take longer is not empty.
    if (snapshot.seq === 0) throw error;
  });
  if (snapshot.seq > 0) return;
  if (trusted && !(signer && trusted.has(signer.publicKey)))
    throw new Error(
      'the log is empty, and only a signer of --trust-signer may create it; set HEADGATE_SIGNING_KEY to the key of one',
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
  if (!(await replicator.reached(1, timeoutMs)))
    throw new LogUnavailable('the new log could not be read back in time');
}

function remainingMs(deadline: number): number {
  return Math.max(1, deadline - performance.now());
}

function outcomeUnknown(id: string): CommandError {
  return new CommandError('OutcomeUnknown', `whether command ${id} was carried out is not known yet`, {
    next: 'repeat it with the same Idempotency-Key',
  });
}

function asCommandError(error: unknown, id: string): unknown {
  if (error instanceof CommitTooLarge)
    return new CommandError('CommandTooLarge', error.message, { next: 'split it into smaller commands' });
  if (error instanceof AppendUnknown) return outcomeUnknown(id);
  return asFollowError(error) ?? error;
}

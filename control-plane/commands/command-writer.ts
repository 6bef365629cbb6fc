/**
 * Writes commands to the log. Each command is authorised and waits for its turn. Then, as part of a group
 * (`command-group.ts`), the state is folded to the head, and the command is authorised again, planned, previewed and
 * appended. It waits until the fold accepts its record. The chain of hashes makes each append conditional on the previous
 * commit, so any number of replicas may write without a leader or a lock. The caller gets a response only once the outcome is
 * known: done, refused, or `OutcomeUnknown`, which a repeat with the same id resolves.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { genesisPrev, type Via } from '../../schemas/events/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { CommitTooLarge, composeCommit } from '../../shared/log/core/chain.ts';
import { AppendUnknown, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { TrustedSigners } from '../../shared/log/core/trust.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { CommandError } from '../core/command-error.ts';
import { asFollowError } from '../core/follow-error.ts';
import type { QueueCaller } from '../state/caller-queue.ts';
import { findBounds } from '../state/catalog.ts';
import type { Actor } from './authorise.ts';
import { type BoundCommand, bindCommand, type CommandRequest, type CommandResult } from './bound-command.ts';
import { type CommandGroupOptions, CommandGroups, outcomeUnknown, timeoutMs } from './command-group.ts';
import { CommandShares, commandCaller, sessionCaller, theReplica } from './command-shares.ts';
import {
  authoriseCommand,
  type CommandDefinition,
  chooseForm,
  parseInput,
  type SigningView,
} from './definition.ts';

export interface CommandWriterOptions extends CommandGroupOptions {
  /** Signers that are allowed to have created the log. Checked only before this replica creates one. */
  readonly trusted?: TrustedSigners | undefined;
  /** Returns the log's signers. Only commands that change the signers need it. */
  readonly signing?: () => SigningView;
}

export class CommandWriter {
  readonly #options: CommandWriterOptions;
  readonly #shares = new CommandShares();
  readonly #groups: CommandGroups;
  #catchingUp: Promise<void> = Promise.resolve();
  #nextCatchUp: Promise<void> | undefined;

  constructor(options: CommandWriterOptions) {
    this.#options = options;
    this.#groups = new CommandGroups(options);
  }

  /** Runs one command of the admin API. Rejects with `CommandError`. */
  run(
    of: CommandDefinition,
    raw: { readonly params?: unknown; readonly body?: unknown },
    request: CommandRequest,
  ): Promise<CommandResult> {
    return this.#asCommand(request.id, async () => {
      const { db } = this.#options.snapshot;
      const { actor } = request;
      const definition = chooseForm(of, raw.body);
      this.#shares.countPerson(actor, findBounds(db));
      const input = parseInput(definition, raw);
      // Parsing and hashing a very large body each take a whole turn of the event loop, so let other work run in between.
      if (definition.plansAhead) await nextTurn();
      const authorise = (): void => authoriseCommand(definition, db, input, actor);
      await this.#checkBeforeTurn(authorise);
      const organisation = actor.person === undefined ? undefined : definition.findOrganisation?.(db, input);
      if (organisation !== undefined) this.#shares.countOrganisation(organisation, findBounds(db));
      const command = bindCommand(this.#options, { definition, input, request, authorise });
      await command.planAhead?.();
      return this.#inTurn(commandCaller(actor, organisation), command);
    });
  }

  /** Writes this replica's events. `events` computes them from the state at the log's head. Rejects with `CommandError`. */
  write(id: string, by: string, events: () => readonly KnownEvent[], via?: Via): Promise<void> {
    return this.#asCommand(id, () => this.#write(theReplica, { id, by, via }, events));
  }

  /** Writes the events that begin or end a session. If `events` throws, the call is refused before it joins the queue. */
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

  /**
   * Runs the check before queueing. If it fails, catches up with the log and runs it again, because the state may be behind.
   */
  async #checkBeforeTurn(check: () => void): Promise<void> {
    try {
      check();
    } catch {
      await this.#caughtUp();
      check();
    }
  }

  /** Resolves once the state has reached the end of the log. Concurrent calls share one read. */
  #caughtUp(): Promise<void> {
    this.#nextCatchUp ??= this.#catchingUp.then(() => {
      this.#nextCatchUp = undefined;
      const work = this.#options.replicator.caughtUp(timeoutMs);
      this.#catchingUp = work.catch(() => undefined);
      return work;
    });
    return this.#nextCatchUp;
  }

  /** Waits for the caller's turn, then runs the command in a group with other waiting commands. */
  async #inTurn(caller: QueueCaller, command: BoundCommand): Promise<CommandResult> {
    const end = await this.#shares.turn(caller);
    try {
      return await this.#groups.run(command);
    } finally {
      end();
    }
  }
}

/** Writes `log.created` if the log is empty. If several replicas do this at once, the first one wins. */
export async function createLog(options: CommandWriterOptions, logId: string, by: string): Promise<void> {
  const { snapshot, replicator, log, signer, trusted } = options;
  await replicator.caughtUp(timeoutMs).catch((error: unknown) => {
    // If commits were folded before the timeout, the log is not empty, so continue.
    if (snapshot.seq === 0) throw error;
  });
  if (snapshot.seq > 0) return;
  if (trusted && !(signer && trusted.has(signer.publicKey)))
    throw new Error(
      'the log is empty, and only a signer of --trust-signer may create it; set HEADGATE_SIGNING_KEY to the key of such a signer',
    );
  const data = signer ? { log: logId, signers: [signer.publicKey] } : { log: logId };
  const record = composeCommit({
    head: { log: logId, seq: 0, hash: genesisPrev, signers: [] },
    id: `create-${logId}`,
    at: new Date(wallClockMs()).toISOString(),
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

function asCommandError(error: unknown, id: string): unknown {
  if (error instanceof CommitTooLarge)
    return new CommandError('CommandTooLarge', error.message, { next: 'split it into smaller commands' });
  if (error instanceof AppendUnknown) return outcomeUnknown(id);
  return asFollowError(error) ?? error;
}

/**
 * Writes concurrent commands as a group. Each command is planned on the state that the commands before it leave, and the log
 * receives all commits in one batch. If another writer takes a commit's log position first, that commit and all later ones of
 * the group are planned again. A decision that was based on such a lost commit is never returned, not even a refusal.
 */
import { randomUUID } from 'node:crypto';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { composeCommit, type Head, recordHash } from '../../shared/log/core/chain.ts';
import { AppendUnknown, type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { Backoff, sleep } from '../../shared/runtime/retry.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { PreviewFold, Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { type BoundCommand, type CommandResult, EffectMoved, type PlannedCommand } from './bound-command.ts';
import { checkMaySign } from './log-signing.ts';
import { checkReaders, type LogReader } from './rolling-upgrade.ts';

/** Maximum number of attempts to write a command. An attempt fails if another writer takes its log position first. */
const attemptsMax = 12;
/** Longest time in ms that a command may wait for the log, over all its attempts. */
export const timeoutMs = 10_000;
/** Maximum number of commands in a group, so that planning and folding a group does not block the event loop. */
export const groupMax = 64;
const groupBytesMax = 256 * 1024;
const groupPlanMs = 10;

export interface CommandGroupOptions {
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly log: ControlLog;
  readonly signer?: Signer | undefined;
  /** Returns the gateways that must understand the written events; see `rolling-upgrade.ts`. */
  readonly readers?: () => readonly LogReader[] | undefined;
  /** Wall clock in ms since 1970. */
  readonly now?: () => number;
}

interface Waiter {
  readonly command: BoundCommand;
  readonly deadline: number;
  attempts: number;
  resolve(result: CommandResult): void;
  reject(error: unknown): void;
}

/** Commit that is ready to be appended after `head`. */
interface NextCommit {
  readonly head: Head;
  readonly bytes: Buffer;
  readonly hash: string;
  readonly events: readonly KnownEvent[];
  readonly context: { readonly seq: number; readonly atMs: number; readonly by: string };
  readonly planned: PlannedCommand;
}
type WithAnswer<Commit> = Commit & { readonly answer: object };

/** Outcome of planning a command, before the log has decided whether its commit is accepted. */
type PlanOutcome = { readonly waiter: Waiter } & (
  | { readonly record: WithAnswer<NextCommit> }
  | { readonly result: CommandResult }
  | { readonly error: unknown }
);

interface Attempt {
  readonly planned: PlanOutcome;
  readonly record?: NextCommit;
  /** Whether the group ends with this command, so that no command is planned on the state after it. */
  readonly isLast: boolean;
}

type AppendOutcome = { readonly offset: number } | { readonly unknown: true } | { readonly refused: unknown };

export class CommandGroups {
  readonly #options: CommandGroupOptions;
  #waiting: Waiter[] = [];
  #isRunning = false;

  constructor(options: CommandGroupOptions) {
    this.#options = options;
  }

  /** Queues a command and resolves with its result. Rejects with `CommandError` or an error of the log. */
  run(command: BoundCommand): Promise<CommandResult> {
    return new Promise((resolve, reject) => {
      const deadline = performance.now() + timeoutMs;
      this.#waiting.push({ command, deadline, attempts: 0, resolve, reject });
      if (this.#isRunning) return;
      this.#isRunning = true;
      void this.#runAll();
    });
  }

  async #runAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const before = this.#waiting;
      try {
        await this.#options.replicator.caughtUp(remainingMs(latest(before)));
        await this.#planAhead();
        await this.#runGroup();
      } catch (error) {
        // Commands that arrived during the failed attempt stay in the queue, because they get an attempt of their own.
        this.#waiting = this.#waiting.filter((waiter) => !before.includes(waiter));
        for (const { reject } of before) reject(error);
      }
    }
    this.#isRunning = false;
  }

  /** Plans a queued large command again if its plan is stale. Puts it first, so that no other command changes the state. */
  async #planAhead(): Promise<void> {
    const large = this.#waiting.find(({ command }) => command.planAhead !== undefined);
    if (large === undefined) return;
    await large.command.planAhead?.();
    this.#waiting = [large, ...this.#waiting.filter((waiter) => waiter !== large)];
  }

  async #runGroup(): Promise<void> {
    const group = this.#options.snapshot.preview((fold) => this.#plan(this.#waiting, fold));
    const planned = new Set(group.map(({ waiter }) => waiter));
    this.#waiting = this.#waiting.filter((waiter) => !planned.has(waiter));
    const records = group.flatMap((each) => ('record' in each ? [each] : []));
    const deadline = latest(records.map(({ waiter }) => waiter));
    const appended = await Promise.all(records.map(({ record }) => this.#append(record.bytes)));
    const fences = await this.#fence(records, appended, deadline);
    const offsets = [...appended.flatMap((each) => ('offset' in each ? each.offset : [])), ...fences];
    const isFolded = offsets.length === 0 || (await this.#isFolded(Math.max(...offsets) + 1, deadline));
    const outcomes = new Map(records.map(({ waiter }, index) => [waiter, appended[index]]));
    const again = settle(group, (waiter, record) => {
      const outcome = outcomes.get(waiter);
      if (outcome && 'refused' in outcome) throw outcome.refused;
      const seq = record.head.seq + 1;
      if (!isFolded || (outcome && 'unknown' in outcome && fences.length === 0))
        throw outcomeUnknown(waiter.command.id);
      // Compares record hashes, not ids: another replica may have run the same command but generated a different API key.
      return this.#options.snapshot.journal.commandAt(seq)?.record === record.hash;
    });
    this.#waiting = [...again, ...this.#waiting];
  }

  async #append(record: Buffer): Promise<AppendOutcome> {
    const { log, signer } = this.#options;
    try {
      return { offset: await log.append(record, signer?.sign(record) ?? null) };
    } catch (error) {
      return error instanceof AppendUnknown ? { unknown: true } : { refused: error };
    }
  }

  /**
   * Finds out whether appends with an unknown outcome succeeded. Appends a no-op for the log position of each. Only the first
   * record for a position counts, so the outcome is certain once the no-op is in the log. Returns the offsets of the no-ops,
   * or none if the log stayed unavailable until the deadline.
   */
  async #fence(
    records: readonly { readonly waiter: Waiter; readonly record: WithAnswer<NextCommit> }[],
    appended: readonly AppendOutcome[],
    deadline: number,
  ): Promise<number[]> {
    const offsets: number[] = [];
    for (const [index, { waiter, record }] of records.entries()) {
      const outcome = appended[index];
      if (!outcome || !('unknown' in outcome)) continue;
      const noOp = this.#encodeNoOp(record.head, waiter.command.by);
      const offset = await this.#appendUntilKnown(noOp, deadline);
      if (offset === undefined) return [];
      offsets.push(offset);
    }
    return offsets;
  }

  #encodeNoOp(head: Head, by: string): Buffer {
    const at = new Date(this.#options.now?.() ?? wallClockMs()).toISOString();
    const events = [toStored({ type: 'no_op', data: {} })];
    return composeCommit({ head, id: `no-op-${randomUUID()}`, at, by, events });
  }

  async #appendUntilKnown(noOp: Buffer, deadline: number): Promise<number | undefined> {
    const { log, signer } = this.#options;
    const backoff = new Backoff({ minMs: 20, maxMs: 500 });
    while (performance.now() < deadline) {
      try {
        return await log.append(noOp, signer?.sign(noOp) ?? null);
      } catch (error) {
        if (!(error instanceof AppendUnknown) && !(error instanceof LogUnavailable)) throw error;
        await sleep(Math.min(backoff.nextMs(), remainingMs(deadline)));
      }
    }
    return undefined;
  }

  /** Waits until the log is folded up to `end`. Returns false if folding fails, because no commit's outcome is then known. */
  async #isFolded(end: number, deadline: number): Promise<boolean> {
    return this.#options.replicator.hasRead(end, remainingMs(deadline)).catch(() => false);
  }

  /**
   * Plans waiting commands in order, within one turn of the event loop. A command that changes the signers ends the group.
   */
  #plan(waiting: readonly Waiter[], fold: PreviewFold): PlanOutcome[] {
    const planned: PlanOutcome[] = [];
    const ids = new Set<string>();
    const untilMs = performance.now() + groupPlanMs;
    let { head } = this.#options.snapshot;
    let bytes = 0;
    for (const waiter of waiting.slice(0, groupMax)) {
      if (planned.length > 0 && (bytes >= groupBytesMax || performance.now() > untilMs)) break;
      // Skips a command whose id an earlier command of the group has. It is answered as a repeat once that one is folded.
      if (ids.has(waiter.command.id)) continue;
      const attempt = this.#attempt(waiter, head, fold);
      planned.push(attempt.planned);
      if (attempt.isLast) break;
      const { record } = attempt;
      if (record === undefined) continue;
      ids.add(waiter.command.id);
      bytes += record.bytes.length;
      head = { ...head, seq: record.context.seq, hash: record.hash };
    }
    return planned;
  }

  #attempt(waiter: Waiter, head: Head, fold: PreviewFold): Attempt {
    let isLast = false;
    try {
      const decided = this.#decide(waiter.command, head);
      if ('status' in decided) return { planned: { waiter, result: decided }, isLast };
      // If building the response fails, the previewed state contains events of a refused command, so the group ends with it.
      isLast = true;
      foldAll(decided, fold);
      const record = { ...decided, answer: decided.answer() };
      isLast = decided.events.some(({ type }) => type === 'log.signers_set');
      return { planned: { waiter, record }, record, isLast };
    } catch (error) {
      return { planned: { waiter, error }, isLast };
    }
  }

  /** Decides a command for the position after `head`. Returns the commit to write, or the result if nothing needs writing. */
  #decide(
    command: BoundCommand,
    head: Head,
  ): CommandResult | (NextCommit & { readonly answer: () => object }) {
    const { snapshot, signer, now = wallClockMs } = this.#options;
    command.authorise?.();
    const before = snapshot.journal.commandOf(command.id);
    if (before) return repeat(command, before);
    checkMaySign(head.signers, signer);
    checkPosition(command, head.seq);
    const nowMs = now();
    const planned = command.plan(nowMs, head);
    const { events, answer, whole = events } = planned;
    const position = head.seq;
    if (events.length === 0) return { answer: answer(), position, status: 'unchanged' };
    if (command.holds?.(whole) === false) throw new EffectMoved();
    this.#checkReaders(command, whole);
    const { id, hash, by, why, via } = command;
    const context = { seq: position + 1, atMs: nowMs, by };
    if (command.dryRun) {
      const previewed = snapshot.preview((fold) => {
        foldAll({ events, context }, fold);
        return answer();
      });
      return { answer: previewed, position, status: 'dry-run', events: whole };
    }
    const bytes = composeCommit({
      head,
      id,
      command: hash,
      at: new Date(nowMs).toISOString(),
      by,
      events: events.map(toStored),
      ...(why !== undefined && { why }),
      ...(via && { via }),
    });
    return { head, bytes, hash: recordHash(bytes), events, context, planned, answer };
  }

  #checkReaders({ force = false }: BoundCommand, events: readonly KnownEvent[]): void {
    const { readers } = this.#options;
    if (readers && !force) checkReaders(events, readers);
  }
}

/** Folds planned events into the previewed state, with the code that will fold them once they are in the log. */
function foldAll({ events, context }: Pick<NextCommit, 'events' | 'context'>, fold: PreviewFold): void {
  const [passedOver] = fold(events, context);
  if (passedOver !== undefined)
    throw new Error(`an event of this command would have no effect: ${passedOver}`);
}

/** Completes a group's commands and returns those to retry. A result counts only if all commits before it are in the log. */
function settle(
  group: readonly PlanOutcome[],
  isInChain: (waiter: Waiter, record: NextCommit) => boolean,
): Waiter[] {
  const again: Waiter[] = [];
  let isFirm = true;
  for (const each of group) {
    const { waiter } = each;
    try {
      if ('record' in each && isInChain(waiter, each.record)) {
        const { answer, context, planned } = each.record;
        const { remaining = 0 } = planned;
        const rest = remaining > 0 && { remaining };
        waiter.resolve({ answer, position: context.seq, status: 'done', ...rest });
      } else if ('record' in each || !isFirm) {
        isFirm = false;
        if (mayTryAgain(waiter)) again.push(waiter);
      } else if ('result' in each) waiter.resolve(each.result);
      else waiter.reject(each.error);
    } catch (error) {
      isFirm = false;
      waiter.reject(error);
    }
  }
  return again;
}

/** Counts an attempt and returns whether the command may be tried again. If not, rejects the command. */
function mayTryAgain(waiter: Waiter): boolean {
  waiter.attempts++;
  if (waiter.attempts < attemptsMax) return true;
  const message = `other commands changed the state during all ${attemptsMax} attempts`;
  waiter.reject(new CommandError('Conflict', message, { next: 'repeat the command' }));
  return false;
}

/** Responds to a command that has already run. Throws a `Conflict` error if its id was used for another command. */
function repeat(
  command: BoundCommand,
  before: { seq: number; hash: string | null; subject: string | null },
): CommandResult {
  if (before.hash !== command.hash)
    throw new CommandError('Conflict', 'another command was sent with this Idempotency-Key', {
      next: 'send each command with its own Idempotency-Key',
    });
  return { answer: command.repeated(before.subject), position: before.seq, status: 'repeated' };
}

function checkPosition({ ifAt }: BoundCommand, seq: number): void {
  if (ifAt === undefined || ifAt === seq) return;
  throw new CommandError('PositionMoved', `the state is at position ${seq}, not ${ifAt}`, {
    next: 'check what changed, then repeat with the new position',
  });
}

function latest(waiters: readonly Waiter[]): number {
  return Math.max(...waiters.map(({ deadline }) => deadline));
}

export function outcomeUnknown(id: string): CommandError {
  return new CommandError('OutcomeUnknown', `it is not yet known whether command ${id} was carried out`, {
    next: 'repeat it with the same Idempotency-Key',
  });
}

function remainingMs(deadline: number): number {
  return Math.max(1, deadline - performance.now());
}

/** Binds a command to its context. A large command is planned in advance, and again if the state has changed since. */
import { randomBytes } from 'node:crypto';
import type { Via } from '../../schemas/events/commit.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { composeCommit, type Head } from '../../shared/log/core/chain.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { atOnce, onOnePosition } from '../../shared/runtime/slices.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { findChange } from '../state/changes.ts';
import { type Actor, actorName } from './authorise.ts';
import { commandHash } from './command-hash.ts';
import { firstPart, type SizedPlan, sizedPlan } from './command-parts.ts';
import {
  type CommandContext,
  type CommandDefinition,
  type CommandInput,
  commandAnswer,
  planInPieces,
  type SigningView,
} from './definition.ts';

/** Options of a single run of a command, in addition to its definition and input. */
export interface CommandRequest {
  /** Command id, derived from the Idempotency-Key, so that a repeated request gets the same id. */
  readonly id: string;
  readonly actor: Actor;
  readonly why?: string | undefined;
  readonly via?: Via | undefined;
  /** If set, the command is refused unless the state is at this log position. */
  readonly ifAt?: number | undefined;
  readonly dryRun?: boolean | undefined;
  /** Whether to skip the guards, and the check that all gateways understand the events. */
  readonly force?: boolean | undefined;
  /** Returns whether the effect guard's verdict on the events still holds. If not, the command fails with `EffectMoved`. */
  readonly holds?: ((events: readonly KnownEvent[]) => boolean) | undefined;
  /** Returns the number of tokens used in a period, which the guard on billing periods needs. */
  readonly used?: CommandContext['used'];
  /** Returns recently served requests, which the guard against draining a model's last node reports. */
  readonly served?: CommandContext['served'];
  readonly stage?: CommandContext['stage'];
  /** Whether to write only the first part of a command that does not fit one commit. Otherwise such a command is refused. */
  readonly inParts?: boolean | undefined;
}

/** Thrown if the state has changed since the command's effect on requests was computed. */
export class EffectMoved extends CommandError {
  constructor() {
    super('Conflict', 'the state changed while the effect of this command was computed', {
      next: 'repeat the command',
    });
  }
}

export interface CommandResult {
  readonly answer: object;
  readonly position: number;
  readonly status: 'done' | 'unchanged' | 'repeated' | 'dry-run';
  /** Events that a dry run would write. */
  readonly events?: readonly KnownEvent[];
  /** Number of the command's events that a later run must still write. Absent if there are none. */
  readonly remaining?: number;
}

/** Part of a command that fits one commit. */
export interface PlannedCommand {
  /** Events to write. The list is empty if there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** Builds the response. The state must already contain these events. */
  answer(): object;
  /** All events of the command, if it is divided into several commits. */
  readonly whole?: readonly KnownEvent[];
  readonly remaining?: number;
}

/** Command of the admin API or of this replica itself, bound to its context. */
export interface BoundCommand extends Omit<CommandRequest, 'actor'> {
  /** SHA-256 of the command's canonical text. A repeat must have the same hash. */
  readonly hash: string;
  readonly by: string;
  /** Throws `CommandError` if the actor lacks the rights. Runs first, so that it reveals nothing about other commands. */
  authorise?(): void;
  /** Prepares the plan in short slices, so that other work can run in between. If planning fails, `plan` throws the error. */
  planAhead?(): Promise<void>;
  /** Plans the command from the state at `head` alone, once per attempt to write it. Throws `CommandError`. */
  plan(nowMs: number, head: Head): PlannedCommand;
  /** Responds to a repeated command. `subject` is the id of the resource that the first run created. */
  repeated(subject: string | null): object;
}

interface Binding {
  readonly snapshot: Snapshot;
  /** Returns the log's signers. Only commands that change the signers need it. */
  readonly signing?: () => SigningView;
  /** Wall clock in ms since 1970. */
  readonly now?: () => number;
}

interface CommandCall {
  readonly definition: CommandDefinition;
  readonly input: CommandInput;
  readonly request: CommandRequest;
  authorise(): void;
}

export function bindCommand(
  { snapshot, signing, now = wallClockMs }: Binding,
  { definition, input, request, authorise }: CommandCall,
): BoundCommand {
  const { db } = snapshot;
  const { actor, force, dryRun, used, served, stage, id, why, via, inParts = false } = request;
  const hash = commandHash(definition.name, input.params, stage ? { body: input.body, stage } : input.body);
  const by = actorName(actor);
  /** The plan made in advance, and the position of the state for which it was made. */
  let known: { readonly planned: () => SizedPlan; readonly seq: number } | undefined;
  const createContext = (nowMs: number): CommandContext => ({
    ...{ nowMs, actor, mint: randomBytes, signing: signing?.(), force, dryRun, used, served, stage },
  });
  return {
    ...request,
    hash,
    by,
    authorise,
    ...(definition.plansAhead && {
      planAhead: async () => {
        if (known?.seq === snapshot.seq) return;
        const plan = () => settled(planEvents(definition, db, input, createContext(now())));
        const found = await onOnePosition(snapshot, 1, plan);
        known = found && { planned: found.result, seq: found.seq };
      },
    }),
    plan: (nowMs, head) => {
      const context = createContext(nowMs);
      const planned =
        known?.seq === head.seq ? known.planned() : atOnce(planEvents(definition, db, input, context));
      const bare = { head, id, command: hash, at: new Date(nowMs).toISOString(), by, events: [] };
      const empty = composeCommit({ ...bare, ...(why !== undefined && { why }), ...(via && { via }) });
      const part = firstPart(planned, empty.length, inParts);
      const { extra: whole, ...plan } = planned.plan;
      const ofAll = dryRun && part.commits > 1 ? { ...whole, commits: part.commits } : whole;
      const extra = dryRun ? ofAll : part.extra;
      return {
        events: part.events,
        answer: () => commandAnswer(definition, db, input, { ...plan, ...(extra && { extra }) }, context),
        whole: planned.plan.events,
        remaining: part.remaining,
      };
    },
    repeated: (subject) =>
      (stage && findChange(db, subject ?? '')) ?? definition.show(db, input, subject ?? undefined, now()),
  };
}

function* planEvents(...input: Parameters<typeof planInPieces>): Generator<void, SizedPlan> {
  return yield* sizedPlan(yield* planInPieces(...input));
}

/** Runs the work without throwing. Returns a function that returns the work's result or throws its error. */
function* settled<Result>(work: Generator<void, Result>): Generator<void, () => Result> {
  try {
    const result = yield* work;
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

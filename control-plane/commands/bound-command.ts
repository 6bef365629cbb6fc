/**
 * A command of the admin API with its context bound, as the writer runs it: it is planned once an attempt. A large plan is made
 * ahead, between the turns of others, and is used if nobody has changed the state since.
 */
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
  /** Whether what was found of an effect holds for these events on this state; where not, nothing is written: `EffectMoved`. */
  readonly holds?: ((events: readonly KnownEvent[]) => boolean) | undefined;
  /** For the guard of periods. */
  readonly used?: CommandContext['used'];
  /** Recently served requests; the guard against draining a model's last node reports them. */
  readonly served?: CommandContext['served'];
  readonly stage?: CommandContext['stage'];
  /** A command that does not fit one commit writes its first part; absent, it is refused. */
  readonly inParts?: boolean | undefined;
}

/** The state has moved since the effect of the command was worked out. */
export class EffectMoved extends CommandError {
  constructor() {
    super('Conflict', 'the state changed while the effect of this command was worked out', {
      next: 'repeat the command',
    });
  }
}

export interface CommandResult {
  readonly answer: object;
  readonly position: number;
  readonly status: 'done' | 'unchanged' | 'repeated' | 'dry-run';
  /** What would be written, of a dry run. */
  readonly events?: readonly KnownEvent[];
  /** How many events are not written yet; absent if none. */
  readonly remaining?: number;
}

/** What one commit takes of a command. */
export interface PlannedCommand {
  /** None: there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** On the state with these events. */
  answer(): object;
  /** All events of the command; absent if they are those of this commit. */
  readonly whole?: readonly KnownEvent[];
  readonly remaining?: number;
}

/** A command of the admin API or of this replica, with its context bound. */
export interface BoundCommand extends Omit<CommandRequest, 'actor'> {
  /** SHA-256 of the command's canonical text: a repeat must be the same command. */
  readonly hash: string;
  readonly by: string;
  /** Throws CommandError. Runs first: a refusal must not show what others have sent. */
  authorise?(): void;
  /** Tries to work out what `plan` will need, in turns that others share; what is refused is refused by `plan`. */
  planAhead?(): Promise<void>;
  /** Pure over the state at this head; throws CommandError. Called once an attempt. */
  plan(nowMs: number, head: Head): PlannedCommand;
  /** The answer to a repeat, from the id of what the first run created. */
  repeated(subject: string | null): object;
}

interface Binding {
  readonly snapshot: Snapshot;
  /** For commands that change the signers. */
  readonly signing?: () => SigningView;
  /** Wall clock, ms since 1970. */
  readonly now?: () => number;
}

interface Asked {
  readonly definition: CommandDefinition;
  readonly input: CommandInput;
  readonly request: CommandRequest;
  authorise(): void;
}

export function bindCommand(
  { snapshot, signing, now = wallClockMs }: Binding,
  { definition, input, request, authorise }: Asked,
): BoundCommand {
  const { db } = snapshot;
  const { actor, force, dryRun, used, served, stage, id, why, via, inParts = false } = request;
  const hash = commandHash(definition.name, input.params, stage ? { body: input.body, stage } : input.body);
  const by = actorName(actor);
  /** The plan that was made ahead, and the position of its state. */
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

/** What it comes to, an error too. */
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

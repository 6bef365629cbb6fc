/**
 * Guards against harmful commands. A command that would refuse many of the requests served in the last hour needs force. The
 * guard judges by recorded requests and, for gateways that do not answer, by their traffic reports. If it cannot see what was
 * served, it refuses the command. If nothing was served, it only warns.
 */
import { randomBytes } from 'node:crypto';
import type { Effect } from '../../schemas/admin/effect.ts';
import type { Commit } from '../../schemas/events/commit.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import { inSlices } from '../../shared/runtime/slices.ts';
import { type Actor, actorName, callerName } from '../commands/authorise.ts';
import {
  authoriseCommand,
  type CommandContext,
  type CommandDefinition,
  parseInput,
  planInPieces,
} from '../commands/definition.ts';
import { intendedRefusals, mayRefuse, mayTurnAnswers } from '../commands/event-effects.ts';
import { CommandError } from '../core/command-error.ts';
import type { RecordedSample } from '../gateways/ask-sample.ts';
import type { AdminContext, GatewayQuestions } from './context.ts';
import { askEffect, recordedSample, reportedRequests, unseenGateways } from './effect-of-events.ts';

type Context = Pick<
  AdminContext,
  GatewayQuestions | 'snapshot' | 'past' | 'traffic' | 'gauges' | 'onCommits'
>;

/** Minimum number of served requests for a judgement. `shareMax` is the share of them that a command may refuse unforced. */
const requestsMin = 100;
const shareMax = 0.01;
/** Time in ms for which all commands share one sample of requests, unless it is too small or a gateway did not answer. */
const sampleMs = 10_000;
/** Time limit in ms for computing an effect. Gateways get five seconds of it to answer, and the history gets the rest. */
const timeoutMs = 10_000;
const listedMax = 10;

interface GuardedCommand {
  readonly definition: CommandDefinition;
  readonly raw: { readonly params?: unknown; readonly body?: unknown };
  readonly actor: Actor;
  readonly used: CommandContext['used'];
}

/** Events that the guard has judged, and the position of the state on which it judged them. */
export interface CheckedEffect {
  readonly events: string;
  readonly position: number;
  readonly warning?: string | undefined;
}

type ServedEffect = NonNullable<Effect['recorded']>;

const nobodyServed = 'no gateway served a request in the last hour, so the effect of this is not known';

export class EffectGuard {
  readonly #context: Context;
  /** Position of the last commit that may have changed the effect of a command. */
  #turnedAt: number;
  /** Hash of the last command that was judged as a whole and of which a part is written, with the position of that part. */
  #divided: { readonly hash: string; readonly position: number } | undefined;
  #sample: { readonly untilMs: number; readonly found: Promise<RecordedSample> } | undefined;

  constructor(context: Context) {
    this.#context = context;
    this.#turnedAt = context.snapshot.seq;
    context.onCommits((commits) => this.#note(commits));
  }

  /** Judges a command, or returns undefined if there is nothing to judge. Throws `GuardRefused` if its effect is harmful. */
  async check(command: GuardedCommand): Promise<CheckedEffect | undefined> {
    const planned = await this.#planned(command);
    if (planned === undefined || !mayRefuse(planned.events)) return undefined;
    const { events, organisation } = planned;
    const { position, recorded } = await this.#effect(command.actor, events, organisation).catch(
      refuseUnseen,
    );
    if (recorded !== undefined) refuseHarm(recorded);
    const isUnserved = recorded === undefined || recorded.asked === 0;
    const hasGateways = this.#context.board.gateways().length > 0;
    return {
      events: describeEvents(events),
      position,
      ...(isUnserved && hasGateways && { warning: nobodyServed }),
    };
  }

  /** Whether the guard has judged exactly these events, on a state that leads to the same outcomes as the current one. */
  holds(checked: CheckedEffect | undefined, events: readonly KnownEvent[]): boolean {
    if (!mayRefuse(events)) return true;
    return checked?.events === describeEvents(events) && checked.position >= this.#turnedAt;
  }

  /** Records that a command has written a part of its judged events, so that the rest is not judged again. */
  wrotePart(hash: string, position: number): void {
    this.#divided = { hash, position };
  }

  /** Whether the rest of a divided command was judged before, and no later commit can have changed the result. */
  isJudged(hash: string | undefined): boolean {
    return hash !== undefined && this.#divided?.hash === hash && this.#turnedAt <= this.#divided.position;
  }

  #note(commits: readonly Commit[]): void {
    for (const { seq, events } of commits)
      if (events.some(({ type }) => mayTurnAnswers(type))) this.#turnedAt = seq;
  }

  /** Plans the command to get its events. Returns undefined if planning fails, because the writer will then refuse it too. */
  async #planned({ definition, raw, actor, used }: GuardedCommand) {
    const { db } = this.#context.snapshot;
    try {
      const input = parseInput(definition, raw);
      authoriseCommand(definition, db, input, actor);
      const context = { nowMs: this.#context.gauges.logNow(), actor, mint: randomBytes, used };
      const { events } = await inSlices(planInPieces(definition, db, input, context));
      const organisation = actor.person === undefined ? undefined : definition.findOrganisation?.(db, input);
      return { events, organisation };
    } catch {
      return undefined;
    }
  }

  /**
   * Computes the command's effect. Always asks the gateways, because traffic reports arrive seconds after the requests. Asks
   * the history only if there are requests to judge.
   */
  async #effect(
    actor: Actor,
    events: readonly KnownEvent[],
    organisation: string | undefined,
  ): Promise<Pick<Effect, 'position' | 'recorded'>> {
    const context = this.#context;
    const position = context.snapshot.seq;
    const reader = { caller: callerName(actor), client: AbortSignal.timeout(timeoutMs) };
    if (!(await context.board.readToEnd(timeoutMs / 2)))
      throw new CommandError('Busy', `the reports of the gateways cannot be read${because(context)}`);
    const sample = await (organisation === undefined
      ? this.#recent(actor)
      : recordedSample(context, organisation, { actor, reader }));
    const unseen = unseenGateways(context, sample);
    if (unseen.length > 0) throw new CommandError('Busy', `${silenceText(unseen)}, and reported nothing`);
    if (sample.decisions + reportedRequests(context, sample, organisation).length === 0) return { position };
    const question = { events, by: actorName(actor), organisation, meant: intendedRefusals(events) };
    return askEffect(context, question, { position, reader }, sample);
  }

  #recent(actor: Actor): Promise<RecordedSample> {
    const nowMs = performance.now();
    if (this.#sample !== undefined && this.#sample.untilMs >= nowMs) return this.#sample.found;
    const reader = { caller: callerName(actor), client: AbortSignal.timeout(timeoutMs) };
    const found = recordedSample(this.#context, undefined, { actor, reader });
    const sample = { untilMs: nowMs + sampleMs, found };
    this.#sample = sample;
    const drop = (): void => {
      if (this.#sample === sample) this.#sample = undefined;
    };
    found.then(({ decisions, silent }) => {
      if (decisions < requestsMin || silent.length > 0) drop();
    }, drop);
    return found;
  }
}

function because({ board: { fault } }: Context): string {
  return fault === undefined ? '' : `: ${fault}`;
}

function nameSome(names: readonly string[]): string {
  const more = names.length > listedMax ? ` and ${names.length - listedMax} more` : '';
  return `${names.slice(0, listedMax).join(', ')}${more}`;
}

const plural = (names: readonly string[], one: string, many: string): string =>
  names.length === 1 ? one : many;

function silenceText(names: readonly string[]): string {
  return `${nameSome(names)} did not send ${plural(names, 'its', 'their')} recorded requests`;
}

/** Refuses the command because the guard cannot see what was served. */
function refuseUnseen(error: unknown): never {
  const reason = error instanceof CommandError ? error.message : 'the history does not answer';
  throw new CommandError('GuardRefused', `it is not known which requests this would refuse: ${reason}`, {
    next: 'repeat the command in a moment, or use --force if the refusals are intended',
  });
}

/** Throws a `GuardRefused` error if too many requests would be refused, or all requests of one organisation. */
function refuseHarm({ asked, refused, lost, groups, gatewaysSilent: silent }: ServedEffect): void {
  if (asked < requestsMin || (refused <= asked * shareMax && lost.length === 0)) return;
  const nothing = lost.length === 0 ? '' : `; all requests of ${nameSome(lost)} would be refused`;
  const reports =
    silent.length === 0 ? '' : `${silenceText(silent)}; by ${plural(silent, 'its', 'their')} reports `;
  throw new CommandError(
    'GuardRefused',
    `${reports}this would refuse ${groupDigits(refused)} of ${groupDigits(asked)} requests served in the last hour${nothing}`,
    {
      next: '--effect shows whose requests; repeat the command with --force if this is intended',
      details: groups
        .filter(({ to }) => /^\d/.test(to))
        .slice(0, listedMax)
        .map(({ organisation = 'visitors', host, model = '-', from, to, requests }) => ({
          path: `${organisation} at ${host}: ${model}`,
          message: `${groupDigits(requests)} requests, ${from} -> ${to}`,
        })),
    },
  );
}

/** Serialises events for comparison. Omits the time at which a model was added, because each try has a different one. */
function describeEvents(events: readonly KnownEvent[]): string {
  return JSON.stringify(events, (name, value: unknown) => (name === 'added' ? undefined : value));
}

const guards = new WeakMap<Context, EffectGuard>();

/** Returns the guard, which all listeners of this process share. */
export function effectGuard(context: Context): EffectGuard {
  const known = guards.get(context) ?? new EffectGuard(context);
  guards.set(context, known);
  return known;
}

/**
 * The guard on effect: a command that would refuse much of what was served in the last hour needs force. The effect is worked out
 * before the command takes its turn in the writer, and what is written is what it was worked out for. It is only ever refused for
 * requests that gateways recorded: where nobody can say what it does, it is carried out.
 */
import { randomBytes } from 'node:crypto';
import type { Commit } from '../../schemas/commit.ts';
import type { Effect } from '../../schemas/effect.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { grouped } from '../../schemas/grouped.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { inSlices } from '../../shared/runtime/slices.ts';
import { type Actor, actorName, callerName } from '../commands/authorise.ts';
import {
  authoriseCommand,
  type CommandContext,
  type CommandDefinition,
  parseInput,
  planInPieces,
} from '../commands/definition.ts';
import { effectOfEvent, mayRefuse, mayTurnAnswers, meantBy } from '../commands/event-effects.ts';
import { CommandError } from '../core/command-error.ts';
import type { RecordedSample } from '../gateways/ask-sample.ts';
import type { AdminContext } from './context.ts';
import { askEffect, recordedSample } from './effect-of-events.ts';

/** In an hour with so many requests, this share of them. */
const requestsMin = 100;
const shareMax = 0.01;
/** A sample of the last hour is good for so long: many commands in a row ask the gateways once. */
const sampleMs = 30_000;
/** A command waits for its effect no longer: gateways have five seconds for what they recorded, the rest is for the history. */
const timeoutMs = 10_000;
const listedMax = 10;

interface GuardedCommand {
  readonly definition: CommandDefinition;
  readonly raw: { readonly params?: unknown; readonly body?: unknown };
  readonly actor: Actor;
  readonly used: CommandContext['used'];
}

/** For which events, and for which state, it was worked out; undefined: for none. */
export interface CheckedEffect {
  readonly events: string;
  readonly position: number;
  /** What the guard could not judge by. */
  readonly unknown?: string | undefined;
}

interface JudgedEffect {
  readonly effect: Effect;
  readonly unknown?: string | undefined;
}

export class EffectGuard {
  readonly #context: AdminContext;
  /** Of the last commit that can change what an effect says. */
  #turnedAt: number;
  #sample: { readonly untilMs: number; readonly found: Promise<RecordedSample> } | undefined;

  constructor(context: AdminContext) {
    this.#context = context;
    this.#turnedAt = context.snapshot.seq;
    context.onCommits((commits) => this.#note(commits));
  }

  /** False where so few requests were counted in the last hour that no command is refused for them. */
  get isNeeded(): boolean {
    let requests = 0;
    for (const { row } of this.#context.traffic.rows(wallClockMs())) {
      requests += row.requests;
      if (requests >= requestsMin) return true;
    }
    return false;
  }

  /** Throws CommandError GuardRefused. */
  async check(command: GuardedCommand): Promise<CheckedEffect | undefined> {
    const planned = await this.#planned(command);
    if (planned === undefined || !mayRefuse(planned.events)) return undefined;
    const { events, organisation } = planned;
    const found = await this.#effect(command.actor, events, organisation).catch(notJudged);
    const recorded = found.effect?.recorded;
    if (recorded !== undefined) refuseFor(recorded);
    const position = found.effect?.position ?? this.#context.snapshot.seq;
    return { events: textOf(events), position, unknown: found.unknown };
  }

  /** Whether these events were checked, on a state that answers as the present one. */
  holds(checked: CheckedEffect | undefined, events: readonly KnownEvent[]): boolean {
    if (!mayRefuse(events)) return true;
    return checked?.events === textOf(events) && checked.position >= this.#turnedAt;
  }

  #note(commits: readonly Commit[]): void {
    for (const { seq, events } of commits)
      if (events.some(({ type }) => mayTurnAnswers(type))) this.#turnedAt = seq;
  }

  /** Undefined: it will be refused, and by the writer. */
  async #planned({ definition, raw, actor, used }: GuardedCommand) {
    const { db } = this.#context.snapshot;
    try {
      const input = parseInput(definition, raw);
      authoriseCommand(definition, db, input, actor);
      const context = { nowMs: wallClockMs(), actor, mint: randomBytes, used };
      const { events } = await inSlices(planInPieces(definition, db, input, context));
      const organisation = actor.person === undefined ? undefined : definition.organisationOf?.(db, input);
      return { events, organisation };
    } catch {
      return undefined;
    }
  }

  /** The gateways are asked where combinations, limits or counters say that requests might be refused. */
  async #effect(
    actor: Actor,
    events: readonly KnownEvent[],
    organisation: string | undefined,
  ): Promise<JudgedEffect> {
    const context = this.#context;
    const reader = { caller: callerName(actor), client: AbortSignal.timeout(timeoutMs) };
    const question = { events, by: actorName(actor), organisation, meant: meantBy(events) };
    const asked = { position: context.snapshot.seq, reader };
    const first = await askEffect(context, question, asked, undefined);
    const isHarmless = first.static.refused === 0 && first.limits.length === 0;
    if (isHarmless && !events.some(({ type }) => effectOfEvent(type) === 'counts')) return { effect: first };
    const sample = await (organisation === undefined
      ? this.#recent(actor)
      : recordedSample(context, organisation, { actor, reader }));
    return { effect: await askEffect(context, question, asked, sample), unknown: unknownIn(sample) };
  }

  #recent(actor: Actor): Promise<RecordedSample> {
    const nowMs = performance.now();
    if (this.#sample === undefined || this.#sample.untilMs < nowMs) {
      const reader = { caller: callerName(actor), client: AbortSignal.timeout(timeoutMs) };
      const found = recordedSample(this.#context, undefined, { actor, reader });
      const sample = { untilMs: nowMs + sampleMs, found };
      this.#sample = sample;
      found.catch(() => {
        if (this.#sample === sample) this.#sample = undefined;
      });
    }
    return this.#sample.found;
  }
}

const unknownStart = 'whom of the last hour it refuses is not known';

/** Nothing is refused for want of the history, but it is said. */
function notJudged(error: unknown): Partial<JudgedEffect> {
  const reason = error instanceof CommandError ? error.message : 'the history does not answer';
  return { unknown: `${unknownStart}: ${reason}` };
}

/** Undefined: all gateways have said what they recorded. */
function unknownIn({ texts, silent }: RecordedSample): string | undefined {
  if (texts.length === 0) return `${unknownStart}: no gateway has said what it recorded`;
  if (silent.length === 0) return undefined;
  const names = silent.slice(0, listedMax).join(', ');
  const more = silent.length > listedMax ? ` and ${silent.length - listedMax} more` : '';
  return `${unknownStart} of ${names}${more}, which did not answer`;
}

/** Throws CommandError GuardRefused. */
function refuseFor({ asked, refused, lost, groups }: NonNullable<Effect['recorded']>): void {
  if (asked < requestsMin || (refused <= asked * shareMax && lost.length === 0)) return;
  const names = lost.slice(0, listedMax).join(', ');
  const more = lost.length > listedMax ? ` and ${lost.length - listedMax} more` : '';
  const nothing = lost.length === 0 ? '' : `; nothing that ${names}${more} asked for would be served`;
  throw new CommandError(
    'GuardRefused',
    `this would refuse ${grouped(refused)} of ${grouped(asked)} requests of the last hour${nothing}`,
    {
      next: 'see whose with --effect; repeat it with --force where this is meant',
      details: groups
        .filter(({ to }) => /^\d/.test(to))
        .slice(0, listedMax)
        .map(({ organisation = 'visitors', host, model = '-', from, to, requests }) => ({
          path: `${organisation} at ${host}: ${model}`,
          message: `${grouped(requests)} requests, ${from} -> ${to}`,
        })),
    },
  );
}

/** Without the time at which a model is added, which is that of each try. */
function textOf(events: readonly KnownEvent[]): string {
  return JSON.stringify(events, (name, value: unknown) => (name === 'added' ? undefined : value));
}

const guards = new WeakMap<AdminContext, EffectGuard>();

/** One for all listeners of this process. */
export function effectGuard(context: AdminContext): EffectGuard {
  const known = guards.get(context) ?? new EffectGuard(context);
  guards.set(context, known);
  return known;
}

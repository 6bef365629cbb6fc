/**
 * A command whose events do not fit one commit, as several: its plan, of which each commit takes as much as fits. What is left
 * of a plan counts as long as nobody else changed the state; then the rest is planned again, from the state that is there.
 */
import { commitBytesMax } from '../../schemas/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events.ts';
import type { CommandPlan } from '../commands/definition.ts';
import { CommandError } from '../core/command-error.ts';

/** What one commit takes of a plan. */
export interface PlanPart {
  readonly events: readonly KnownEvent[];
  /** Fields of the answer. */
  readonly extra: object | undefined;
  /** How many events are left for the next ones. */
  readonly remaining: number;
  /** This one and those that the rest takes. */
  readonly commits: number;
}

/** The events of a plan from one number on. */
export class PlannedEvents {
  readonly plan: CommandPlan;
  readonly #from: number;
  /** Bytes of each event and its comma, in a record; none where the plan is one commit. */
  readonly #sizes: readonly number[];

  private constructor(plan: CommandPlan, from: number, sizes: readonly number[]) {
    this.plan = plan;
    this.#from = from;
    this.#sizes = sizes;
  }

  /** Of pieces, because it takes as long as its events are many. */
  static *of(plan: CommandPlan): Generator<void, PlannedEvents> {
    const sizes: number[] = [];
    if (plan.divisible) {
      for (const event of plan.events) {
        sizes.push(Buffer.byteLength(JSON.stringify(toStored(event))) + 1);
        yield;
      }
    }
    return new PlannedEvents(plan, 0, sizes);
  }

  get events(): readonly KnownEvent[] {
    return this.#from === 0 ? this.plan.events : this.plan.events.slice(this.#from);
  }

  /** What a commit takes whose record has so many bytes without events. Throws CommandError where its parts may not be. */
  part(emptyBytes: number, inParts: boolean): PlanPart {
    const { events, extra, divisible } = this.plan;
    const ends = this.#ends(commitBytesMax - emptyBytes);
    const [end = events.length] = ends;
    if (!divisible || (this.#from === 0 && ends.length <= 1))
      return { events, extra, remaining: 0, commits: 1 };
    const isAnyTooLarge = this.#sizes.some((size) => size > commitBytesMax - emptyBytes);
    if (!inParts || isAnyTooLarge) throw this.#tooLarge(emptyBytes, ends.length, isAnyTooLarge);
    return {
      events: events.slice(this.#from, end),
      extra: divisible.extra(this.#from, end),
      remaining: events.length - end,
      commits: ends.length,
    };
  }

  /** The same plan after a part. */
  after({ remaining }: PlanPart): PlannedEvents {
    return new PlannedEvents(this.plan, this.plan.events.length - remaining, this.#sizes);
  }

  /** Where each part ends: as late as its bytes allow, and where the next one may begin. */
  #ends(roomBytes: number): number[] {
    const ends: number[] = [];
    let begin = this.#from;
    let bytes = -1;
    let mayEnd: number | undefined;
    for (let at = begin; at < this.#sizes.length; at++) {
      const size = this.#sizes[at] ?? 0;
      if (at > begin && this.plan.divisible?.mayBegin(at)) mayEnd = at;
      while (at > begin && bytes + size > roomBytes) {
        begin = mayEnd ?? at;
        ends.push(begin);
        mayEnd = undefined;
        // What is before `at` goes into the next part.
        bytes = sum(this.#sizes.slice(begin, at)) - 1;
      }
      bytes += size;
    }
    return begin < this.#sizes.length ? [...ends, this.#sizes.length] : ends;
  }

  #tooLarge(emptyBytes: number, commits: number, isAnyTooLarge: boolean): CommandError {
    const bytes = sum(this.#sizes) + emptyBytes - 1;
    const inParts = isAnyTooLarge
      ? 'one of its changes alone has more'
      : `in parts it takes ${commits} commits`;
    return new CommandError(
      'CommandTooLarge',
      `the command's commit has ${bytes} bytes; at most ${commitBytesMax} are allowed; ${inParts}`,
      { next: isAnyTooLarge ? 'split it into smaller commands' : 'apply it in parts, or split it yourself' },
    );
  }
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((total, size) => total + size, 0);
}

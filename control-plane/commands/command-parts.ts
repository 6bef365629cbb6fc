/**
 * Divides a plan whose events do not fit one commit. Each run of a command writes one part, and the next run plans the rest.
 */
import { commitBytesMax } from '../../schemas/events/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { CommandError } from '../core/command-error.ts';
import type { CommandPlan } from './definition.ts';

/** Events of a plan that fit one commit. */
interface PlanPart {
  readonly events: readonly KnownEvent[];
  /** Additional fields of the response. */
  readonly extra: object | undefined;
  /** Number of events left after this part. */
  readonly remaining: number;
  /** Number of commits that the whole plan needs. */
  readonly commits: number;
}

/** A plan. If it can be divided, `sizes` contains the number of bytes that each event and its comma take in a record. */
export interface SizedPlan {
  readonly plan: CommandPlan;
  readonly sizes: readonly number[];
}

/** Measures the size in bytes of each event in a plan. Yields after each one, because there may be many. */
export function* sizedPlan(plan: CommandPlan): Generator<void, SizedPlan> {
  const sizes: number[] = [];
  for (const event of plan.divisible ? plan.events : []) {
    sizes.push(Buffer.byteLength(JSON.stringify(toStored(event))) + 1);
    yield;
  }
  return { plan, sizes };
}

/**
 * Returns the first part of a plan. `emptyBytes` is the size of a record without events. Throws `CommandError` if the plan
 * needs several commits and `inParts` is false.
 */
export function firstPart({ plan, sizes }: SizedPlan, emptyBytes: number, inParts: boolean): PlanPart {
  const { events, extra, divisible } = plan;
  const roomBytes = commitBytesMax - emptyBytes;
  const ends = partEnds(sizes, roomBytes, (at) => divisible?.mayBegin(at) === true);
  const [end = events.length] = ends;
  if (!divisible || ends.length <= 1) return { events, extra, remaining: 0, commits: 1 };
  const isAnyTooLarge = sizes.some((size) => size > roomBytes);
  if (!inParts || isAnyTooLarge)
    throw tooLarge(sum(sizes) + emptyBytes - 1, isAnyTooLarge ? undefined : ends.length);
  return {
    events: events.slice(0, end),
    extra: divisible.extra(end),
    remaining: events.length - end,
    commits: ends.length,
  };
}

/** Returns the index at which each part ends. Parts are as long as possible, and end only where the next one may begin. */
function partEnds(
  sizes: readonly number[],
  roomBytes: number,
  mayBegin: (at: number) => boolean,
): readonly number[] {
  const ends: number[] = [];
  let begin = 0;
  let bytes = -1;
  let mayEnd: number | undefined;
  for (const [at, size] of sizes.entries()) {
    if (at > begin && mayBegin(at)) mayEnd = at;
    while (at > begin && bytes + size > roomBytes) {
      begin = mayEnd ?? at;
      ends.push(begin);
      mayEnd = undefined;
      // The events between the end of the part and this event belong to the next part.
      bytes = sum(sizes.slice(begin, at)) - 1;
    }
    bytes += size;
  }
  return sizes.length === 0 ? ends : [...ends, sizes.length];
}

/** Creates a `CommandTooLarge` error. `commits` is the number of commits needed, or undefined if one event is too large. */
function tooLarge(bytes: number, commits: number | undefined): CommandError {
  const inParts =
    commits === undefined ? 'one of its changes alone is larger' : `in parts it takes ${commits} commits`;
  return new CommandError(
    'CommandTooLarge',
    `the command's commit has ${bytes} bytes; at most ${commitBytesMax} are allowed; ${inParts}`,
    {
      next:
        commits === undefined ? 'split it into smaller commands' : 'apply it in parts, or split it yourself',
    },
  );
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((total, size) => total + size, 0);
}

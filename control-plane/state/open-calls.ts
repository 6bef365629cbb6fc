/**
 * Limits the open calls on this replica, such as streams, waiting calls, questions and downloads, per caller and in total.
 * Part of the total is reserved for operators. An organisation may open a call while it has fewer open calls than are still
 * free. If none is free, an organisation without a call replaces the newest call of the organisation with the most calls.
 */
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { CommandError } from '../core/command-error.ts';
import { Tally } from './tally.ts';

interface Bounds {
  readonly what: string;
  /** Maximum number of open calls for one person in all sessions, or for one session of an operator. */
  readonly perCaller: number;
  readonly total: number;
  /** Part of the total that only operators may use. */
  readonly forOperators: number;
}

export const openCallBounds = {
  stream: { what: 'streams of pages', perCaller: 50, total: 1000, forOperators: 100 },
  /** Event tails that programs follow. Their number is limited, because each tail has a buffer. */
  tail: { what: 'tails of events', perCaller: 20, total: 100, forOperators: 50 },
  /** Every distinct query makes each gateway send rows. A gateway accepts at most 128 queries from all replicas. */
  follow: { what: 'streams of requests', perCaller: 10, total: 60, forOperators: 30 },
  wait: { what: 'waits for confirmations', perCaller: 20, total: 1000, forOperators: 200 },
  /** Explanations, reads of gateways' records, and reads of past states. */
  question: { what: 'questions', perCaller: 16, total: 128, forOperators: 32 },
  export: { what: 'exports', perCaller: 4, total: 40, forOperators: 8 },
  read: { what: 'reads', perCaller: 100, total: 2000, forOperators: 200 },
} as const satisfies Record<OpenCall, Bounds>;

interface Caller {
  /** The person, or undefined for an operator. Someone who signed in with an organisation's link counts separately. */
  readonly person?: string | undefined;
  /** Id of the console session, if there is one. */
  readonly session?: string | undefined;
}

interface PersonCall {
  readonly kind: OpenCall;
  readonly organisation: string;
  replace(): void;
}

export class OpenCalls {
  readonly #counts = new Tally();
  /** Open calls of members, newest last. */
  readonly #ofPersons = new Set<PersonCall>();

  /**
   * Opens a call. Returns a function that ends it; further calls of the function have no effect. A person's call counts
   * against the organisation in `organisations` that has the fewest calls. `replaced` runs if another call takes its place.
   * Throws `TooManyRequests` if the caller has too many calls, and `Busy` if the replica has.
   */
  begin(
    kind: OpenCall,
    { person, session }: Caller,
    organisations: readonly string[],
    replaced: () => void,
  ): () => void {
    const { perCaller, total, forOperators, what }: Bounds = openCallBounds[kind];
    // A program that uses the operator's token is limited only by the total.
    const caller = person === undefined ? session && `session ${session}` : `person ${person}`;
    if (caller !== undefined && this.#count(kind, caller) >= perCaller)
      throw tooMany(`you have too many ${what} open`);
    const names = ['all', ...(caller === undefined ? [] : [caller])];
    const free = total - this.#count(kind, 'all');
    if (person === undefined) {
      if (free <= 0) throw busy(what);
      return this.#hold(kind, names);
    }
    // A person without an organisation counts as a separate organisation.
    const places = organisations.length === 0 ? [`of ${person}`] : organisations;
    const counted = places.map((id) => ({ id, count: this.#count(kind, `organisation ${id}`) }));
    const { id: organisation, count } = counted.reduce((one, other) =>
      other.count < one.count ? other : one,
    );
    const left = free - forOperators;
    if (count >= left && !(count === 0 && this.#replaceNewest(kind)))
      throw left > 0 ? tooMany(`your organisation has too many ${what} open`) : busy(what);
    const release = this.#hold(kind, [...names, `organisation ${organisation}`]);
    const end = (): void => {
      release();
      this.#ofPersons.delete(call);
    };
    const call = {
      ...{ kind, organisation },
      replace: () => {
        end();
        replaced();
      },
    };
    this.#ofPersons.add(call);
    return end;
  }

  /** Ends the newest call of the organisation with the most calls. Returns false if no organisation has more than one. */
  #replaceNewest(kind: OpenCall): boolean {
    let most = 2;
    let newest: PersonCall | undefined;
    for (const call of this.#ofPersons) {
      const count = call.kind === kind ? this.#count(kind, `organisation ${call.organisation}`) : 0;
      if (count >= most) [most, newest] = [count, call];
    }
    newest?.replace();
    return newest !== undefined;
  }

  #count(kind: OpenCall, name: string): number {
    return this.#counts.of(`${kind} ${name}`);
  }

  #hold(kind: OpenCall, names: readonly string[]): () => void {
    return this.#counts.hold(names.map((name) => `${kind} ${name}`));
  }

  count(kind: OpenCall): number {
    return this.#count(kind, 'all');
  }
}

function tooMany(message: string): CommandError {
  return new CommandError('TooManyRequests', message, { next: 'close some of them, or wait until some end' });
}

function busy(what: string): CommandError {
  return new CommandError('Busy', `too many ${what} are open on this replica`, {
    next: 'try again in a few seconds, or ask another replica',
  });
}

/**
 * Bounds the simultaneously open calls on this replica, such as streams, waits, questions and downloads. There are bounds per
 * session, per person and in total, and a part of the total is reserved for operators. An organisation may open a call while
 * it has fewer open calls than remain free. If none is free, an organisation without an open call replaces the newest call of
 * the organisation with the most.
 */
import type { OpenCall } from '../../schemas/admin/admin-row.ts';
import { CommandError } from '../core/command-error.ts';
import { Tally } from './tally.ts';

interface Bounds {
  readonly what: string;
  readonly perSession: number;
  /** Bound over all of a person's sessions. Sessions from an organisation's sign-in links are counted separately. */
  readonly perPerson: number;
  readonly total: number;
  /** Number of calls in the total that only operators may use. */
  readonly forOperators: number;
}

export const openCallBounds = {
  stream: {
    what: 'streams of pages',
    ...{ perSession: 20, perPerson: 50, total: 1000, forOperators: 100 },
  },
  /** Tails used by programs. Each has its own buffer. */
  tail: {
    what: 'tails of events',
    ...{ perSession: 20, perPerson: 20, total: 100, forOperators: 50 },
  },
  /**
   * Each distinct question makes every gateway send rows. A gateway accepts at most 128 of them from all replicas together.
   */
  follow: {
    what: 'streams of requests',
    ...{ perSession: 8, perPerson: 10, total: 60, forOperators: 30 },
  },
  wait: {
    what: 'waits for confirmations',
    ...{ perSession: 20, perPerson: 20, total: 1000, forOperators: 200 },
  },
  /**
   * Calls that explain a decision or read the past. The bound for all persons is below the number of places in the history's
   * queue.
   */
  question: {
    what: 'questions',
    ...{ perSession: 16, perPerson: 16, total: 128, forOperators: 32 },
  },
  export: {
    what: 'exports',
    ...{ perSession: 4, perPerson: 4, total: 40, forOperators: 8 },
  },
  read: {
    what: 'reads',
    ...{ perSession: 64, perPerson: 100, total: 2000, forOperators: 200 },
  },
} as const satisfies Record<OpenCall, Bounds>;

interface Caller {
  /** Absent for an operator. */
  readonly person?: string | undefined;
  /** Console session. */
  readonly session?: string | undefined;
}

interface PersonCall {
  readonly kind: OpenCall;
  readonly organisation: string;
  replace(): void;
}

export class OpenCalls {
  readonly #counts = new Tally();
  /** Members' calls, newest last. */
  readonly #ofPersons = new Set<PersonCall>();

  /**
   * Opens a call and returns a function that ends it. Calling that function again has no effect. A person's call counts
   * against whichever of `organisations` has the fewest calls. `replaced` runs when another organisation takes the call's
   * place. Throws CommandError TooManyRequests if the caller has too many calls, and Busy if the replica has.
   */
  begin(
    kind: OpenCall,
    { person, session }: Caller,
    organisations: readonly string[],
    replaced: () => void,
  ): () => void {
    const { perSession, perPerson, total, forOperators, what }: Bounds = openCallBounds[kind];
    const own = [
      ...(session === undefined ? [] : [{ name: `session ${session}`, max: perSession }]),
      ...(person === undefined ? [] : [{ name: `person ${person}`, max: perPerson }]),
    ];
    if (own.some(({ name, max }) => this.#count(kind, name) >= max))
      throw tooMany(`you have too many ${what} open`);
    const names = ['all', ...own.map(({ name }) => name)];
    const free = total - this.#count(kind, 'all');
    if (person === undefined) {
      if (free <= 0) throw busy(what);
      return this.#hold(kind, names);
    }
    // A person without an organisation counts as an organisation.
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

  /** Number of open calls of all callers. */
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

/**
 * Calls that are open at once on this replica: streams, waits, questions, downloads. One table bounds them for each session,
 * person and organisation, so that none of these keeps others out, and for all together, of which a part is left to operators.
 */
import type { OpenCall } from '../../schemas/admin-row.ts';
import { Tally } from '../../shared/runtime/tally.ts';
import { CommandError } from '../core/command-error.ts';

interface Bounds {
  readonly what: string;
  readonly perSession: number;
  /** Of all sessions of a person; those by links of an organisation are apart from the others. */
  readonly perPerson: number;
  readonly perOrganisation: number;
  readonly total: number;
  /** How many of them operators alone may have. */
  readonly forOperators: number;
}

export const openCallBounds = {
  stream: {
    what: 'streams of pages',
    ...{ perSession: 20, perPerson: 50, perOrganisation: 250, total: 1000, forOperators: 100 },
  },
  /** Those of programs, with their buffers. */
  tail: {
    what: 'tails of events',
    ...{ perSession: 20, perPerson: 20, perOrganisation: 20, total: 100, forOperators: 50 },
  },
  /** Each is followed at every gateway, which has 128 of them for all replicas. */
  follow: {
    what: 'streams of requests',
    ...{ perSession: 8, perPerson: 10, perOrganisation: 20, total: 60, forOperators: 30 },
  },
  wait: {
    what: 'waits for confirmations',
    ...{ perSession: 20, perPerson: 20, perOrganisation: 100, total: 1000, forOperators: 200 },
  },
  /** What explains or reads the past; persons have fewer together than may wait for the history. */
  question: {
    what: 'questions',
    ...{ perSession: 16, perPerson: 16, perOrganisation: 48, total: 128, forOperators: 32 },
  },
  export: {
    what: 'exports',
    ...{ perSession: 4, perPerson: 4, perOrganisation: 8, total: 40, forOperators: 8 },
  },
  read: {
    what: 'reads',
    ...{ perSession: 64, perPerson: 100, perOrganisation: 400, total: 2000, forOperators: 200 },
  },
} as const satisfies Record<OpenCall, Bounds>;

interface Caller {
  /** Absent: an operator. */
  readonly person?: string | undefined;
  /** Of the console. */
  readonly session?: string | undefined;
}

export class OpenCalls {
  readonly #counts = new Tally();

  /**
   * Returns what ends the call; it may be called again. `organisations`: of a person, of which one must have room. Throws
   * CommandError: TooManyRequests where the caller has too many, Busy where all have.
   */
  begin(kind: OpenCall, { person, session }: Caller, organisations: readonly string[]): () => void {
    const { perSession, perPerson, perOrganisation, total, forOperators, what }: Bounds =
      openCallBounds[kind];
    const isOperator = person === undefined;
    const has = (name: string): number => this.#counts.of(`${kind} ${name}`);
    const own = [
      ...(session === undefined ? [] : [{ name: `session ${session}`, max: perSession }]),
      ...(isOperator ? [] : [{ name: `person ${person}`, max: perPerson }]),
    ];
    if (own.some(({ name, max }) => has(name) >= max)) throw tooMany(`too many ${what} of yours are open`);
    const organisation = organisations.find((id) => has(`organisation ${id}`) < perOrganisation);
    if (organisations.length > 0 && organisation === undefined)
      throw tooMany(`too many ${what} of your organisation are open`);
    if (has('all') >= (isOperator ? total : total - forOperators))
      throw new CommandError('Busy', `too many ${what} are open on this replica`, {
        next: 'try again in a few seconds, or ask another replica',
      });
    const names = ['all', ...own.map(({ name }) => name)];
    if (organisation !== undefined) names.push(`organisation ${organisation}`);
    return this.#counts.hold(names.map((name) => `${kind} ${name}`));
  }

  /** How many there are of all callers. */
  count(kind: OpenCall): number {
    return this.#counts.of(`${kind} all`);
  }
}

function tooMany(message: string): CommandError {
  return new CommandError('TooManyRequests', message, { next: 'close some of them, or wait for their end' });
}

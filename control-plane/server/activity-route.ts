/** What requests met in the last hour: refusals by type, of an organisation or of all, and which keys call its stacks how. */
import type { AnswerOf } from '../../schemas/admin.ts';
import { readingRoles } from '../../schemas/admin-row.ts';
import { type DecisionRecord, decisionRecordSchema } from '../../schemas/decisions.ts';
import { operations, surfaceOfPath } from '../../schemas/operations.ts';
import { authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { decisionLines } from '../gateways/ask-decisions.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type AdminContext, actorOf } from './context.ts';
import type { OperationHandlers } from './operations.ts';

const spanMs = 3600_000;
/** A reading serves every page that asks meanwhile. */
const keptMs = 10_000;
/** For each gateway: the next reading waits for this one. */
const readMsMax = 30_000;
/** Of one reading; a busier fleet is read in part, and the answer says so. */
const linesMax = 100_000;
const pieceMs = 20;

/** Whose requests have no organisation: no key, or none that is known, and visitors. No organisation has this id. */
const nobody = '';
const refusalsListed = 100;

type Answer = AnswerOf<'organisation.activity'>;
type Caller = Answer['callers'][number];
interface Activity {
  readonly refusals: Map<string, Answer['refusals'][number]>;
  readonly callers: Map<string, Caller>;
}
interface Reading {
  readonly sinceMs: number;
  readonly of: ReadonlyMap<string, Activity>;
  readonly unanswered: readonly string[];
  readonly isPartial: boolean;
}

function add(all: Map<string, Activity>, record: DecisionRecord): void {
  const { organisation = nobody, served, status, type = 'other', stack, key, operation, at } = record;
  const own = all.get(organisation) ?? { refusals: new Map(), callers: new Map() };
  all.set(organisation, own);
  if (!served) {
    const name = `${status} ${type}`;
    const before = own.refusals.get(name);
    const isNewest = before === undefined || Date.parse(before.lastAt) < at;
    own.refusals.set(name, {
      ...{ status, type, requests: (before?.requests ?? 0) + 1 },
      lastAt: isNewest ? new Date(at).toISOString() : before.lastAt,
      lastRequest: isNewest ? record.req : before.lastRequest,
    });
  }
  const { path, countsAs } = operations[operation];
  const isCall = countsAs !== 'listing' && countsAs !== 'nothing';
  if (stack === undefined || key === undefined || !isCall || organisation === nobody) return;
  const surface = surfaceOfPath(path);
  const name = `${stack} ${surface} ${key}`;
  const requests = (own.callers.get(name)?.requests ?? 0) + 1;
  own.callers.set(name, { stack, surface, key, requests });
}

async function read(context: AdminContext): Promise<Reading> {
  const sinceMs = Date.now() - spanMs;
  const of = new Map<string, Activity>();
  const pieces = decisionLines(context, sinceMs, undefined, readMsMax);
  let count = 0;
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return { sinceMs, of, unanswered: value, isPartial: false };
    count += await addLines(of, value.split('\n'));
    if (count < linesMax) continue;
    await pieces.return([]);
    return { sinceMs, of, unanswered: [], isPartial: true };
  }
}

/** Returns how many there were. Gives other work a turn now and then. */
async function addLines(of: Map<string, Activity>, lines: readonly string[]): Promise<number> {
  let turnMs = performance.now();
  for (const line of lines) {
    const record = recordIn(line);
    if (record) add(of, record);
    if (performance.now() - turnMs < pieceMs) continue;
    await new Promise((resolve) => setImmediate(resolve));
    turnMs = performance.now();
  }
  return lines.length;
}

function recordIn(line: string): DecisionRecord | undefined {
  try {
    return decisionRecordSchema.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

export function activityHandlers(
  context: AdminContext,
): OperationHandlers<'organisation.activity' | 'activity.get'> {
  let last: Promise<Reading> | undefined;
  const forget = (): void => {
    last = undefined;
  };
  const readOnce = async (): Promise<Reading> => {
    try {
      return await read(context);
    } finally {
      setTimeout(forget, keptMs).unref();
    }
  };
  const reading = (): Promise<Reading> => {
    last ??= readOnce();
    return last;
  };
  return {
    'organisation.activity': async ({ params: { id }, request }) => {
      const { db } = context.snapshot;
      authorise(db, actorOf(request), readingRoles, () => id);
      if (!findOrganisation(db, id)) throw new CommandError('NotFound', `there is no organisation ${id}`);
      const { sinceMs, of, unanswered, isPartial } = await reading();
      const own = of.get(id);
      return {
        refusals: mostFirst(own?.refusals.values() ?? []),
        callers: mostFirst(own?.callers.values() ?? []),
        ...howFar(context, { sinceMs, unanswered, isPartial }),
      };
    },
    'activity.get': async () => {
      const { of, ...read } = await reading();
      const refusals = [...of].flatMap(([organisation, own]) =>
        [...own.refusals.values()].map((refusal) =>
          organisation === nobody ? refusal : { ...refusal, organisation },
        ),
      );
      return { refusals: mostFirst(refusals).slice(0, refusalsListed), ...howFar(context, read) };
    },
  };
}

function mostFirst<Counted extends { readonly requests: number }>(counted: Iterable<Counted>): Counted[] {
  return [...counted].sort((a, b) => b.requests - a.requests);
}

function howFar(
  { snapshot }: AdminContext,
  { sinceMs, unanswered, isPartial }: Omit<Reading, 'of'>,
): Pick<Answer, 'since' | 'unanswered' | 'partial' | 'position'> {
  return {
    since: new Date(sinceMs).toISOString(),
    unanswered: [...unanswered],
    ...(isPartial && ({ partial: true } as const)),
    position: snapshot.seq,
  };
}

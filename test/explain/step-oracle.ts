/**
 * What each step of an explanation must say, from what was sent, what the client got, and what the test counted: a second
 * hand at the same rules, which shares no code with the product's texts.
 */
import { expect } from 'vitest';
import type { Explanation } from '../../schemas/explanations.ts';
import { visitorsSubject } from '../../schemas/limits.ts';
import type { StepName } from '../../shared/decision/step.ts';
import type { Answer } from '../support/api.ts';
import { type Asked, askedTokens, isMessages } from './asked.ts';
import { type Counted, exactly, isWithin, type Range } from './counted.ts';
import {
  catalogued,
  installed,
  loaded,
  places,
  stackOwners,
  surfaces,
  type TestKey,
  type Tier,
  tierOf,
  tiers,
  visitorLimits,
  weights,
} from './explained-fleet.ts';

type Step = Explanation['steps'][number];

/** What the test knew when the request was sent. */
export interface Known {
  readonly asked: Asked;
  readonly key: TestKey | undefined;
  /** Whose limits count: an organisation, or a visitor. */
  readonly subject: string;
  readonly drained: ReadonlySet<string>;
  readonly isPaused: boolean;
  readonly stackInstalled: ReadonlySet<string>;
  readonly freeTurns: number;
  readonly counted: Counted;
  /** Requests that were sent at the same moment. */
  readonly others: number;
  readonly adjusted: number;
  readonly seen: Seen;
}

interface Seen {
  readonly inFlight: Readonly<Record<string, { readonly here: number; readonly elsewhere: Range }>>;
  readonly tokens: Range;
  readonly turns: Range;
  readonly networkTurns: Range;
  readonly visitorTokens: Range;
}

/** Requests that only count tokens have limits of their own. */
const counting = (subject: string): string => `counting:${subject}`;

/** Whose minute and number in flight a request counts in. */
export function countedAs({ asked, subject }: Pick<Known, 'asked' | 'subject'>): string {
  return asked.operation === 'count-tokens' ? counting(subject) : subject;
}

/** Numbers that change are copied: a held stream is explained once it has ended. */
export function seenNow(counted: Counted, { subject, gateway }: { subject: string; gateway: number }): Seen {
  const inFlight = Object.fromEntries(
    [subject, counting(subject), visitorsSubject].map((one) => [
      one,
      { here: counted.inFlight.of(one, gateway).now, elsewhere: counted.elsewhere(one, gateway) },
    ]),
  );
  return {
    inFlight,
    tokens: counted.known(counted.tokens, subject, gateway),
    turns: counted.known(counted.turns, subject, gateway),
    networkTurns: counted.known(counted.turns, 'network', gateway),
    visitorTokens: counted.known(counted.tokens, visitorsSubject, gateway),
  };
}

/** Whose tier it is; null: none. */
export function tierNameOf({ asked, key, isPaused }: Known): string | null {
  if (asked.visitor !== undefined) return 'anonymous';
  const organisation = key?.organisation ?? '';
  return organisation === 'paused' && isPaused ? null : (tierOf[organisation] ?? null);
}
export function tierFor(known: Known): Tier {
  const name = tierNameOf(known) ?? '';
  return name === 'anonymous' ? visitorLimits : (tiers[name] ?? { models: [] });
}

const includes = ({ models }: Tier, model: string): boolean => models === '*' || models.includes(model);

/** The nodes of a place in words, and whether one serves the model. */
function nodesOf(place: string, model: string, drained: ReadonlySet<string>): { ok: boolean; text: string } {
  const all = places[place] ?? [];
  const has = (id: string): boolean => loaded[id]?.includes(model) === true;
  const serving = all.filter((id) => has(id) && !drained.has(id));
  if (serving.length > 0)
    return { ok: true, text: `${serving.join(', ')} serve${serving.length === 1 ? 's' : ''} it` };
  const texts = [...all.filter(has), ...all.filter((id) => !has(id))].map(
    (id) => `${id} ${has(id) ? 'is drained' : 'has not loaded it'}`,
  );
  return { ok: false, text: texts.join(', ') || 'no nodes' };
}

export const isOwn = (known: Known): boolean =>
  known.asked.host === 'shared' &&
  known.asked.visitor === undefined &&
  nodesOf(`organisation:${known.key?.organisation}`, known.asked.model, known.drained).ok;

/** Would the pool answer, so that the allowance is asked? */
export const isPooled = (known: Known): boolean =>
  known.asked.host === 'shared' &&
  !isMessages(known.asked) &&
  !isOwn(known) &&
  installed.includes(known.asked.model) &&
  includes(tierFor(known), known.asked.model);

/** What the node counts of the prompt. */
const promptTokens = ({ asked: { promptBytes, operation } }: Known): number =>
  Math.ceil(promptBytes / 4) + (operation === 'embeddings' ? 0 : 3);

/** At most all that the tier carries, and of all visitors together at most what these may have. */
export function weightOf(known: Known, limit: number | undefined): number {
  const isKnown = isPooled(known) || installed.includes(known.asked.model) || known.asked.host !== 'shared';
  const weight = isKnown ? (weights[known.asked.model] ?? 1) : 1;
  return Math.max(1, Math.min(weight, tierFor(known).concurrency ?? weight, limit ?? weight));
}

type Says = { readonly ok: boolean; readonly text: string };
type Check = (known: Known, step: Step, answer: Answer, atMs: number) => Says;
const always =
  (text: string): Check =>
  () => ({ ok: true, text });

const defects: Readonly<Record<string, string>> = {
  shape: 'the body is of no form that can be carried',
  'unknown field': 'the body is of no form that can be carried',
  encoded: 'the body is encoded',
};
const keyFaults: Readonly<Record<string, string>> = {
  missing: 'no key was sent',
  malformed: 'what was sent has not the form of a key',
  nobody: 'no key that is known',
  two: 'two different keys were sent',
};
const nodeFailures: Readonly<Record<string, string>> = {
  'bad-refuse': 'the node did not answer it',
  'bad-fault': 'the node did not answer it',
  'bad-request': 'the engine of the node does not take such a request',
  'bad-window': 'it needs more than the context window of the model',
};

const turnsText = (turns: number): string => `${turns} turn${turns === 1 ? '' : 's'}`;
const tokensText = (tokens: number): string => `${tokens} token${tokens === 1 ? '' : 's'}`;
const limitText = (limit: number | undefined): string => (limit === undefined ? 'no limit' : `of ${limit}`);
const numberIn = (text: string, pattern: RegExp): number => Number(pattern.exec(text)?.[1] ?? Number.NaN);

function key({ asked: { who }, key: found }: Known): Says {
  if (found === undefined) return { ok: false, text: keyFaults[who] ?? '' };
  const { organisation, text, state, expiresAt } = found;
  if (state !== 'good') return { ok: false, text: `${text} is ${state}` };
  const name = `${organisation[0]?.toUpperCase()}${organisation.slice(1)} Ltd (${organisation})`;
  return { ok: true, text: `${text} of ${name}${expiresAt === undefined ? '' : `, expires ${expiresAt}`}` };
}

function context(known: Known, { text, facts }: Step, { status, content }: Answer): Says {
  const { asked } = known;
  const { contextTokens: limit } = tierFor(known);
  const isAnswered = ['chat', 'responses', 'messages'].includes(asked.operation);
  const forAnswer = isAnswered ? (askedTokens(asked) ?? 1) : 0;
  const tokens = promptTokens(known);
  const needed = numberIn(text, /(\d+) tokens?\b/);
  const ofPrompt = needed - forAnswer;
  const bound = /^(?:at most|at least) /.exec(text)?.[0] ?? '';
  const parts = forAnswer === 0 ? '' : ` (${ofPrompt} of the prompt, ${forAnswer} for the answer)`;
  const label = `${text} of ${JSON.stringify({ asked, facts, tokens })}`;
  if (bound === '') expect(ofPrompt, label).toBe(tokens);
  else if (bound === 'at most ') expect(ofPrompt, label).toBeGreaterThanOrEqual(tokens);
  else expect(ofPrompt, label).toBeLessThanOrEqual(tokens);
  if (status === 413 && content.includes('ContextWindow') && content.includes('needs a context'))
    expect(content, label).toContain(`of ${bound.replace('at most ', '')}${needed} tokens`);
  return {
    ok: limit === undefined || needed <= limit,
    text: `${bound}${tokensText(needed)}${parts}, ${limitText(limit)}`,
  };
}

/** The number that a text has is one that it may be; gives it. */
function counted(text: string, pattern: RegExp, range: Range): number {
  const found = numberIn(text, pattern);
  expect(isWithin(found, range), `${text}: ${JSON.stringify(range)}`).toBe(true);
  return found;
}

/** Of the answers in a burst. */
const answerTokensMost = 100;

function allowance(known: Known, { text }: Step): Says {
  if (known.asked.visitor !== undefined) {
    const used = counted(text, /^(\d+) turns?/, known.seen.turns);
    return {
      ok: used < known.freeTurns,
      text: `${turnsText(used)} of this month used, of ${known.freeTurns}`,
    };
  }
  const { monthlyTokens: limit } = tierFor(known);
  const { from, to } = known.seen.tokens;
  const most = to + known.others * answerTokensMost;
  const range = { from: Math.max(0, from + known.adjusted), to: Math.max(0, most + known.adjusted) };
  const used = counted(text, /^(\d+) tokens?\b/, range);
  return {
    ok: limit === undefined || used < limit,
    text: `${tokensText(used)} ${used === 1 ? 'counts' : 'count'} against the allowance of this period, ${limitText(limit)}`,
  };
}

interface Use {
  readonly what: string;
  readonly limit: number | undefined;
  readonly weight?: number;
  readonly here: Range;
  /** undefined: each gateway counts it alone. */
  readonly elsewhere: Range | undefined;
}

/** Numbers that were reached, so that a sample without them does not pass. */
export const reached = new Set<string>();

/** Who used how much of a limit, in words, and whether there was room. */
function use(name: string, { text, result }: Step, { what, limit, weight, here, elsewhere }: Use): Says {
  const counts = weight === undefined ? '' : `, this one counts ${weight}`;
  if (limit === undefined) return { ok: true, text: `no limit${counts}` };
  const own = counted(text, /^(\d+) /, here);
  if (elsewhere === undefined)
    return {
      ok: own + (weight ?? 1) <= limit,
      text: `${own} ${what} at this gateway${counts}, of ${limit}`,
    };
  const away = counted(text, /and (\d+) elsewhere/, elsewhere);
  const held = /others hold (\d+)\)/.exec(text)?.[1];
  const room = numberIn(text, /room for (\d+) more/);
  const kept = held === undefined ? '' : ` (others hold ${held})`;
  if (held !== undefined) expect(Number(held), text).toBeGreaterThan(away);
  expect(own + room, text).toBeLessThanOrEqual(limit);
  if (away > 0) reached.add(`${name} elsewhere`);
  if (held !== undefined) reached.add(`${name} held`);
  if (own > 0) reached.add(`${name} here`);
  if (result === 'refused' && away > 0) reached.add(`${name} refused with some elsewhere`);
  return {
    ok: room >= (weight ?? 1),
    text: `${own} here and ${away} elsewhere ${what}${kept}; room for ${room} more at this gateway${counts}, of ${limit}`,
  };
}

function requestsUse(
  known: Known,
  subject: string,
  limit: number | undefined,
  what: string,
  atMs: number,
): Use {
  const { asked, counted: all, others } = known;
  const own = all.inMinute(subject, asked.gateway, atMs);
  const away = all.inMinute(subject, 1 - asked.gateway, atMs);
  const isAlone = subject.startsWith('visitor:');
  return {
    ...{ what, limit, here: { from: own.from, to: own.to + others } },
    elsewhere: isAlone ? undefined : { from: 0, to: away.to + others },
  };
}

function flightUse(known: Known, subject: string, limit: number | undefined, what: string): Use {
  const { here, elsewhere } = known.seen.inFlight[subject] ?? { here: 0, elsewhere: exactly(0) };
  const most = known.others * 4;
  const { from, to } = elsewhere;
  return {
    ...{ what, limit, weight: weightOf(known, limit), here: { from: here, to: here + most } },
    elsewhere: subject.startsWith('visitor:') ? undefined : { from, to: to + most },
  };
}

const surface: Check = ({ asked }) => {
  const speaks = asked.host === 'shared' ? 'openai' : surfaces[asked.host];
  const wants = isMessages(asked) ? 'anthropic' : asked.operation === 'embeddings' ? speaks : 'openai';
  return wants === speaks
    ? { ok: true, text: `it speaks ${speaks}` }
    : { ok: false, text: 'this host does not serve the API style of this path' };
};

const nodes: Check = (known) => {
  const { asked, drained, stackInstalled } = known;
  if (asked.host === 'shared')
    return installed.includes(asked.model)
      ? nodesOf('pool', asked.model, drained)
      : { ok: false, text: 'not installed' };
  if (!stackInstalled.has(asked.model)) return { ok: false, text: 'not installed' };
  return nodesOf(`stack:${asked.host}`, asked.model, drained);
};

/** What a host lists to a caller. */
export function listed({ asked, drained, stackInstalled }: Known): string[] {
  const place = asked.host === 'shared' ? 'pool' : `stack:${asked.host}`;
  const all = asked.host === 'shared' ? installed : [...stackInstalled];
  return all.filter((model) => nodesOf(place, model, drained).ok);
}

const withoutPlan = ({ key: found }: Known): Says => ({
  ok: false,
  text: found?.organisation === 'paused' ? 'the organisation is suspended' : 'no plan',
});

const listing: Check = (known) => {
  const { asked, key: found } = known;
  const isTheirs = asked.host === 'shared' || stackOwners[asked.host] === found?.organisation;
  const isEntitled = found === undefined || asked.host === 'shared' || tierNameOf(known) !== null;
  if (asked.operation === 'model' && !isEntitled) return withoutPlan(known);
  if (!isTheirs) return { ok: false, text: 'this stack is not yours, or not there' };
  if (asked.operation === 'models' || listed(known).includes(asked.model))
    return { ok: true, text: 'the list of models' };
  return { ok: false, text: 'it is not in the list of this host' };
};

export const oracle: Readonly<Record<StepName, Check>> = {
  http: () => ({ ok: false, text: 'it is not well-formed HTTP' }),
  host: ({ asked: { host } }) => ({
    ok: host !== 'unknown',
    text:
      host === 'unknown'
        ? 'no host of this service'
        : host === 'shared'
          ? 'the shared host'
          : `the host of ${host}`,
  }),
  fresh: always('the state is proven fresh'),
  key,
  path: ({ asked: { operation } }) =>
    operation === 'unknown'
      ? { ok: false, text: 'there is nothing at this path' }
      : { ok: true, text: `operation ${operation}` },
  shape: ({ asked: { defect } }) =>
    defect === undefined
      ? { ok: true, text: 'the body was read and is well-formed' }
      : { ok: false, text: defects[defect] ?? '' },
  usage: always('usage can be recorded'),
  plan: (known) => {
    const name = tierNameOf(known);
    if (name !== null) return { ok: true, text: `on ${name}` };
    return withoutPlan(known);
  },
  context,
  allowance,
  'network allowance': (known, { text }) => {
    const limit = known.freeTurns * 8;
    const used = counted(text, /^(\d+) turns?/, known.seen.networkTurns);
    return { ok: used < limit, text: `${turnsText(used)} of the network used today, of ${limit}` };
  },
  'visitor tokens': (known, { text }) => {
    const { tokensPerDay: limit } = visitorLimits.total;
    const used = counted(text, /^(\d+) tokens/, known.seen.visitorTokens);
    return { ok: used < limit, text: `${used} tokens of all visitors used today, of ${limit}` };
  },
  requests: (known, step, _answer, atMs) =>
    use(
      'requests',
      step,
      requestsUse(known, countedAs(known), tierFor(known).requestsPerMinute, 'in this minute', atMs),
    ),
  concurrency: (known, step) =>
    use('concurrency', step, flightUse(known, countedAs(known), tierFor(known).concurrency, 'in flight')),
  'visitor requests': (known, step, _answer, atMs) => {
    const { requestsPerMinute } = visitorLimits.total;
    const what = 'of all visitors in this minute';
    return use('visitor requests', step, requestsUse(known, visitorsSubject, requestsPerMinute, what, atMs));
  },
  'visitor concurrency': (known, step) => {
    const { concurrency } = visitorLimits.total;
    const what = 'of all visitors in flight';
    return use('visitor concurrency', step, flightUse(known, visitorsSubject, concurrency, what));
  },
  stack: ({ asked: { host }, key: found }) =>
    stackOwners[host] === found?.organisation
      ? { ok: true, text: `${host} is of this organisation` }
      : { ok: false, text: `${host} is not yours, or not there` },
  surface,
  'own nodes': ({ asked: { model }, key: found, drained }) =>
    nodesOf(`organisation:${found?.organisation}`, model, drained),
  pool: ({ asked: { model } }) =>
    installed.includes(model)
      ? { ok: true, text: 'installed' }
      : {
          ok: false,
          text: catalogued.includes(model) ? 'not installed' : 'nothing here has a model of this name',
        },
  tier: (known) => {
    const ok = tierNameOf(known) !== null && includes(tierFor(known), known.asked.model);
    return { ok, text: `${tierNameOf(known) ?? 'the plan'} ${ok ? 'includes' : 'does not include'} it` };
  },
  nodes,
  listing,
  answer: ({ asked: { model } }) => ({ ok: false, text: nodeFailures[model] ?? '' }),
};

/**
 * Lists the steps of a decision in order. A step's row contains all that other files need to know about the step: when
 * explanations show it, which data it reads, whose names it contains, which limit it compares, and a text for each result.
 * `causes.ts` assigns causes to steps.
 */
import type { SayingStep } from './causes.ts';
import type { StepName } from './step.ts';
import type { Describe, StepTexts } from './step-texts.ts';
import * as say from './step-texts.ts';

/** Limit of a tier: the `headgate tier set` option that sets it, and its field in the tier or in the visitors' totals. */
interface PlanLimit {
  readonly flag: string;
  readonly field: string;
  readonly isOfAll?: true;
}

export interface StepRow {
  /** Group to which the step belongs. Only recorded requests have `http` and `answer` steps. */
  readonly group: 'http' | 'head' | 'listing' | 'body' | 'route' | 'answer';
  /** Hosts for which explanations show the step even if undecided: all, stacks, the shared host, or (`asked`) none. */
  readonly shown: 'always' | 'stack' | 'shared' | 'asked';
  /** Data that the step reads. `sums` is read before any limit is checked, `use` only until a limit refuses the request. */
  readonly needs: 'head' | 'body' | 'sums' | 'use';
  /** Owner of the names in the step's facts (`place`: the place's owner). Members may see only their own names. */
  readonly names: 'own' | 'others' | 'place';
  /** Set if the step, once passed, determines what is served. */
  readonly gives?: true;
  /** Set if another plan might change the step's refusal. `limit` is the limit that the step compares. */
  readonly plan?: { readonly limit?: PlanLimit };
  readonly texts: StepTexts;
}

/** Row of a step. It must contain a text for refusals if one of the step's causes has none. */
type StepRowFor<Name extends StepName> = Name extends SayingStep | 'own nodes'
  ? StepRow & { readonly texts: { readonly refused: Describe | string } }
  : StepRow;

const head = { group: 'head', shown: 'always', needs: 'head', names: 'own' } as const;
const body = { group: 'body', shown: 'always', needs: 'body', names: 'own' } as const;
const ofVisitors = { ...body, shown: 'asked' } as const;
const route = { group: 'route', shown: 'always', needs: 'body', names: 'own' } as const;
const unasked = { shown: 'asked', needs: 'head', names: 'own' } as const;

const limit = (flag: string, field: string) => ({ plan: { limit: { flag, field } } });
const ofAll = (flag: string, field: string) => ({ plan: { limit: { flag, field, isOfAll: true } } }) as const;
/** Uses the same text whether the step passes or refuses, because the text's numbers explain the result. */
const either = (text: Describe) => ({ texts: { ok: text, refused: text } });

const rows = {
  http: { ...unasked, group: 'http', texts: { refused: say.unread } },
  host: { ...head, texts: { ok: say.host } },
  fresh: { ...head, texts: { ok: 'the state is proven fresh' } },
  key: { ...head, texts: { ok: say.key, assumed: say.anyKey, refused: say.refusedKey } },
  path: { ...head, texts: { ok: say.operation } },
  listing: {
    ...{ ...unasked, group: 'listing', gives: true },
    texts: { ok: 'the list of models', refused: say.unlisted },
  },

  shape: {
    ...body,
    texts: { ok: 'the body was read and is well-formed', assumed: 'assumed to be well-formed' },
  },
  usage: { ...body, texts: { ok: 'usage can be recorded' } },
  plan: { ...body, needs: 'head', plan: {}, texts: { ok: say.plan, refused: say.withoutPlan } },
  context: { ...body, ...limit('--context-tokens', 'contextTokens'), ...either(say.context) },
  allowance: {
    ...{ ...body, needs: 'sums', ...limit('--monthly-tokens', 'monthlyTokens') },
    ...either(say.allowance),
  },
  'network allowance': { ...ofVisitors, needs: 'sums', plan: {}, ...either(say.networkAllowance) },
  'visitor tokens': {
    ...{ ...ofVisitors, needs: 'sums', ...ofAll('--total-tokens-per-day', 'tokensPerDay') },
    ...either(say.visitorTokens),
  },
  requests: {
    ...{ ...body, needs: 'use', ...limit('--requests-per-minute', 'requestsPerMinute') },
    ...either(say.uses('in this minute')),
  },
  concurrency: {
    ...{ ...body, needs: 'use', ...limit('--concurrency', 'concurrency') },
    ...either(say.uses('in flight')),
  },
  'visitor requests': {
    ...{ ...ofVisitors, needs: 'use', ...ofAll('--total-requests-per-minute', 'requestsPerMinute') },
    ...either(say.uses('in this minute from all visitors')),
  },
  'visitor concurrency': {
    ...{ ...ofVisitors, needs: 'use', ...ofAll('--total-concurrency', 'concurrency') },
    ...either(say.uses('in flight from all visitors')),
  },

  stack: { ...route, shown: 'stack', needs: 'head', texts: { ok: say.stack, refused: say.noStack } },
  surface: {
    ...route,
    shown: 'stack',
    texts: { ok: say.surface, refused: 'this host does not serve the API style of this path' },
  },
  'own nodes': { ...route, shown: 'shared', gives: true, texts: { ok: say.serving, refused: say.away } },
  pool: {
    ...{ ...route, shown: 'shared', names: 'others' },
    texts: { ok: say.inPool('installed'), refused: say.inPool('not installed') },
  },
  tier: {
    ...{ ...route, shown: 'shared', names: 'others', plan: {} },
    texts: { ok: say.inTier('includes it'), refused: say.inTier('does not include it') },
  },
  nodes: { ...route, names: 'place', gives: true, texts: { ok: say.serving, refused: say.notServing } },
  answer: { ...unasked, group: 'answer', texts: { refused: say.unfinished } },
} as const satisfies { readonly [Name in StepName]: StepRowFor<Name> };

type Rows = typeof rows;
export type StepResults = {
  [Name in StepName]: 'refused' | Extract<keyof Rows[Name]['texts'], 'ok' | 'assumed'>;
};
export type PassedStep = { [Name in StepName]: 'ok' extends StepResults[Name] ? Name : never }[StepName];

export const steps: Readonly<Record<StepName, StepRow>> = rows;
export const stepNames = Object.keys(rows) as readonly StepName[];

/**
 * Lists all causes of refusals. Each row contains the step at which the request ends, the stage that detects the cause, the
 * refusal's type and the text for explanations. Causes of the stage `admission` follow from rules alone, so a replay can
 * decide only these again.
 */

import type { RefusalType } from '../../schemas/api/refusals.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';

export type Stage = DecisionRecord['stage'];

/** Step that an explanation shows for a cause detected at a stage other than `admission`. */
export const stepOfStage = {
  http: 'http',
  body: 'shape',
  shape: 'shape',
  usage: 'usage',
  answer: 'answer',
} as const satisfies Record<Exclude<Stage, 'admission'>, string>;

export interface CauseRow {
  readonly step: StepOfCause;
  readonly stage: Stage;
  readonly type: RefusalType;
  /** Text for explanations, or null if the step's own text already states the facts. */
  readonly says: string | null;
  /** Text for logs, metrics and records. Set only if it differs from the cause's name. */
  readonly label?: string | undefined;
  /** Start of the text for logs. The details of the fault follow it. */
  readonly opening?: string | undefined;
}

/** Text for logs. `its type` means the refusal's type, for causes that logs never told apart from others of the same type. */
type Text = 'its type' | Pick<CauseRow, 'label' | 'opening'>;

function ruleCause<Step extends string, Type extends RefusalType, Says extends string | null>(
  step: Step,
  type: Type,
  says: Says,
  text: Text = {},
) {
  return { step, stage: 'admission', type, says, ...(text === 'its type' ? { label: type } : text) } as const;
}

function found<In extends keyof typeof stepOfStage, Type extends RefusalType>(
  stage: In,
  type: Type,
  says: string,
  text: Text = {},
) {
  return { ...ruleCause(stepOfStage[stage], type, says, text), stage } as const;
}

const notListed: Text = { label: 'not listed' };
const ofWorker: Text = { opening: 'shaping: ' };
const ofNode: Text = { opening: '' };

const unavailable = 'InferenceUnavailableError';
const wrongShape = 'UnsupportedShapeError';
const rateLimited = 'InferenceRateLimitedError';
const notServing = 'TargetNotServingError';
const notThere = 'NotFoundError';

const unread = 'the request could not be read';
const stale = 'the state was too old to verify a key';
const unlisted = 'this host does not list the model';
const tooMuchMemory = 'its organisation used all the memory that one organisation may use';
const noForm = 'the body has an unsupported form';
const notTaken = 'the engine of the node does not accept this request';
const tooLong = 'the request needs more than the context window of the model';
const otherKind = 'only one of request and model is for reranking';
const noAnswer = 'the node did not answer the request';

/** Causes in the order of their steps. A cause with an `opening` matches many texts, so causes with one come last. */
const rows = {
  'bad http': found('http', wrongShape, 'the request is not well-formed HTTP'),
  'large headers': found('http', 'PayloadTooLargeError', 'the headers are too large'),
  'no visitor': found('http', 'Unauthorized', 'the request has no visitor cookie'),
  'no key': found('http', 'Unauthorized', 'the key is not accepted'),
  'new visitors': found('http', rateLimited, 'too many new visitors came from the network in the past hour'),
  solutions: found('http', rateLimited, unread),
  'playground is busy': found('http', rateLimited, unread),
  'no such call': found('http', notThere, 'the playground has no such call', 'its type'),

  'unknown host': ruleCause('host', notThere, 'the service does not serve this host'),
  fenced: ruleCause('fresh', unavailable, stale),
  'fenced without a key': ruleCause('fresh', 'Unauthorized', stale, { label: 'fenced' }),
  missing: ruleCause('key', 'Unauthorized', 'no key was sent'),
  'two Authorization headers': ruleCause('key', 'Unauthorized', 'two Authorization headers were sent'),
  malformed: ruleCause('key', 'Unauthorized', 'the credential does not have the form of a key'),
  unknown: ruleCause('key', 'Unauthorized', 'the key is unknown'),
  'two different keys': ruleCause('key', 'Unauthorized', 'two different keys were sent'),
  revoked: ruleCause('key', 'Unauthorized', null),
  expired: ruleCause('key', 'Unauthorized', null),
  'no such path': ruleCause('path', notThere, 'no endpoint has this method and path', 'its type'),

  'foreign or missing stack': ruleCause('listing', notServing, 'the organisation has no such stack'),
  'not listed without a plan': ruleCause('listing', 'ModelNotInPlanError', null, notListed),
  'not listed by the stack': ruleCause('listing', notServing, unlisted, notListed),
  'not listed by the pool': ruleCause('listing', 'DedicatedOnlyModelError', unlisted, notListed),
  'not listed now': ruleCause('listing', unavailable, unlisted, notListed),

  'encoded body': found('body', wrongShape, 'the body has a Content-Encoding'),
  'large body': found('body', 'PayloadTooLargeError', 'the body is too large', 'its type'),
  'slow body': found('body', unavailable, 'the body arrived too slowly'),
  'body budget': found('body', unavailable, 'the gateway had no memory for the body'),
  'body budget of the organisation': found('body', unavailable, tooMuchMemory),
  'no turn': found('body', wrongShape, noForm),
  shape: found('shape', wrongShape, noForm, 'its type'),
  unshaped: found('shape', unavailable, 'the gateway could not finish reading the body', ofWorker),

  'usage unknown': found('usage', unavailable, 'the usage of the caller was not known'),
  'outbox full': ruleCause('usage', unavailable, 'usage could not be recorded'),
  'no entitlement': ruleCause('plan', 'ModelNotInPlanError', null),
  'no visitors': ruleCause('plan', notThere, 'visitors are not served here'),
  context: ruleCause('context', 'ContextWindowExceededError', null, 'its type'),
  allowance: ruleCause('allowance', 'InferenceUpsellError', null, 'its type'),
  'network turns': ruleCause('network allowance', 'InferenceUpsellError', null),
  'visitor tokens': ruleCause('visitor tokens', 'InferenceUpsellError', null),
  requests: ruleCause('requests', rateLimited, null, 'its type'),
  concurrency: ruleCause('concurrency', 'InferenceConcurrencyLimitedError', null, 'its type'),
  'visitor requests': ruleCause('visitor requests', rateLimited, null),
  'visitor concurrency': ruleCause('visitor concurrency', 'InferenceConcurrencyLimitedError', null),

  'foreign stack': ruleCause('stack', notServing, null),
  'no such stack': ruleCause('stack', notServing, null),
  'wrong surface': ruleCause('surface', wrongShape, null),
  'own node away': ruleCause('pool', unavailable, null),
  'no pool': ruleCause('pool', 'DedicatedOnlyModelError', null, 'its type'),
  'model not in plan': ruleCause('tier', 'ModelNotInPlanError', null),
  'not serving': ruleCause('nodes', notServing, null),
  'no node answers': ruleCause('nodes', unavailable, null),
  'wrong kind': ruleCause('nodes', wrongShape, otherKind),

  'drain ended': found('answer', unavailable, 'the gateway stopped before it answered'),
  fault: found('answer', 'InternalError', 'the gateway failed to handle the request', 'its type'),
  'not for this model': found('answer', wrongShape, notTaken, 'its type'),
  'answer budget': found('answer', unavailable, 'the gateway had no memory for the answer', {
    label: 'body budget',
  }),
  'answer budget of the organisation': found('answer', unavailable, tooMuchMemory, {
    label: 'body budget of the organisation',
  }),
  unfinished: found('answer', unavailable, 'the gateway could not finish the request', ofWorker),
  window: found('answer', 'ContextWindowExceededError', tooLong, ofNode),
  rejected: found('answer', wrongShape, notTaken, ofNode),
  'node failed': found('answer', unavailable, noAnswer, ofNode),
  'node of a stack failed': found('answer', notServing, noAnswer, ofNode),
};

type Rows = typeof rows;
export type Cause = keyof Rows;
export type CauseWithType<Type extends RefusalType> = {
  [Name in Cause]: Rows[Name]['type'] extends Type ? Name : never;
}[Cause];
export type StepOfCause = Rows[Cause]['step'];
/** Steps that need a text of their own, because at least one of their causes has none. */
export type SayingStep = {
  [Name in Cause]: Rows[Name]['says'] extends string ? never : Rows[Name]['step'];
}[Cause];

export const causes: Readonly<Record<Cause, CauseRow>> = rows;
export const causeNames = Object.keys(rows) as readonly Cause[];

/** Text of a cause for logs, metrics and records. `detail` is appended if the cause has an opening. */
export function causeText(cause: Cause, detail = ''): string {
  const { label = cause, opening } = causes[cause];
  return opening === undefined ? label : opening + detail;
}

/** Returns the cause of a recorded refusal, or undefined if no cause matches. */
export function findCause({
  stage,
  type,
  reason = '',
}: Pick<DecisionRecord, 'stage' | 'type' | 'reason'>): Cause | undefined {
  const fitting = causeNames.filter((name) => {
    const { type: own, label = name, opening } = causes[name];
    return type === own && (opening === undefined ? reason === label : reason.startsWith(opening));
  });
  // Prefer a cause of the recorded stage, because several stages may share the same type and text.
  return fitting.find((name) => causes[name].stage === stage) ?? fitting[0];
}

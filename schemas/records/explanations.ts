/** Explanations of decisions, as the admin API asks for them and answers with them. */
import { z } from 'zod';
import { explainedKinds } from '../api/operations.ts';
import { idSchema, modelIdSchema, stackIdSchema } from '../names.ts';
import { decisionRecordSchema, requestIdSchema } from './decisions.ts';
import { enderSchema, outcomeSchema, phaseSchema } from './verdict.ts';

const moment = z.union([z.int().min(1), z.string().min(1).max(40)]);

/** One of `key`, `organisation`, `visitor`, `request` and `record` says who asks. */
export const explainRequestSchema = z
  .strictObject({
    key: idSchema.optional(),
    organisation: idSchema.optional(),
    visitor: z.literal(true).optional(),
    /** A request that some gateway keeps the decision of. */
    request: requestIdSchema.optional(),
    /** A line of a decision journal. */
    record: decisionRecordSchema.optional(),
    model: modelIdSchema.optional(),
    /** `shared`, or a stack. */
    host: z.union([z.literal('shared'), stackIdSchema]).default('shared'),
    path: z.enum(explainedKinds).default('chat'),
    promptTokens: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(1),
    maxTokens: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
    /** The state after this commit or at this time; for a record its own position unless it is given. */
    at: moment.optional(),
    /** Of a request that was not made: as on gateways that the open change has reached. */
    wave: z.boolean().optional(),
    /** Explains the same at this moment too. */
    diff: moment.optional(),
  })
  .refine(
    ({ key, organisation, visitor, request, record }) =>
      [key, organisation, visitor, request, record].filter((one) => one !== undefined).length === 1,
    { message: 'give one of key, organisation, visitor, request and record' },
  )
  .refine(({ wave, request, record }) => wave !== true || (request ?? record) === undefined, {
    message: 'a record says itself which change its gateway had',
    path: ['wave'],
  })
  .refine(({ record }) => record?.key === undefined || record.visitor === undefined, {
    message: 'a record names a key or a visitor, not both',
    path: ['record'],
  });
export type ExplainRequest = z.output<typeof explainRequestSchema>;

const position = z.int().min(0);
const answer = {
  served: z.boolean(),
  status: z.int(),
  type: z.string().optional(),
};
const verdictSchema = z.object({
  outcome: outcomeSchema,
  ...answer,
  /** Status of the answer; absent if no head was sent. */
  status: answer.status.optional(),
  /** Text of the refusal. For a request that ended early: who ended it, when and why. */
  message: z.string().optional(),
  endedBy: enderSchema.exclude(['deadline']).optional(),
  phase: phaseSchema.optional(),
});

const becauseSchema = z.object({
  position,
  /** Of the event. */
  type: z.string(),
  by: z.string().optional(),
  at: z.string(),
  why: z.string().optional(),
});

const explainedStepSchema = z.object({
  step: z.string(),
  result: z.enum(['ok', 'refused', 'skipped', 'assumed']),
  text: z.string(),
  facts: z.record(z.string(), z.unknown()),
  /** The event that made it so. */
  because: becauseSchema.optional(),
  /** The open change of which it depends on a row. */
  change: z.string().optional(),
});

export const explanationSchema = z.object({
  verdict: verdictSchema,
  /** The state that decided. */
  at: position,
  /** Which gateway recorded it, and when. */
  gateway: z.string().optional(),
  time: z.string().optional(),
  /** Cause of a refusal, finer than its type. For operators, and for everyone if no model has the requested name. */
  cause: z.string().optional(),
  recorded: verdictSchema.optional(),
  /** Verdict of this build on the recorded facts. Absent, like `same`, if the request ended before it was decided. */
  rederived: verdictSchema.optional(),
  same: z.boolean().optional(),
  steps: z.array(explainedStepSchema),
  /** The step with the newest event among those that decide. */
  decisive: z.string().optional(),
  /** The answer before that event. */
  before: z.object({ position, ...answer }).optional(),
  /** Single changes that would turn a refusal, tried on a copy of the present state. */
  would: z.array(z.string()),
  assumptions: z.array(z.string()),
  diff: z
    .object({
      from: position,
      to: position,
      /** Steps that differ. */
      steps: z.array(z.string()),
      /** The events in between that decide them. */
      events: z.array(becauseSchema),
    })
    .optional(),
});
export type Explanation = z.infer<typeof explanationSchema>;
export type ExplainedStep = z.infer<typeof explainedStepSchema>;
export type Because = z.infer<typeof becauseSchema>;
export type ExplainedVerdict = z.infer<typeof verdictSchema>;
/** A verdict that follows from rules, so it has a status. */
export type RuledVerdict = ExplainedVerdict & { readonly status: number };

export const explainMatrixSchema = z.object({
  items: z.array(
    z.object({
      model: z.string(),
      host: z.string(),
      /** How it was asked: a model that reranks is asked to. */
      path: z.enum(explainedKinds),
      ...answer,
    }),
  ),
  /** There are further models: `after` of the next page. */
  next: z.string().optional(),
  position,
});

/** Which gateways did not answer, so what they keep is missing. */
export const gatewayDecisionSchema = z.object({
  decision: decisionRecordSchema,
  unanswered: z.array(z.string()),
});

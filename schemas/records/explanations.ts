/** Requests to `explain` in the admin API, and the responses. */
import { z } from 'zod';
import { explainedKinds } from '../api/operations.ts';
import { idSchema, modelIdSchema, stackIdSchema } from '../names.ts';
import { decisionRecordSchema, requestIdSchema } from './decisions.ts';
import { enderSchema, outcomeSchema, phaseSchema } from './verdict.ts';

const moment = z.union([z.int().min(1), z.string().min(1).max(40)]);

/** Request to explain a decision. Exactly one of `key`, `organisation`, `visitor`, `request` and `record` must be given. */
export const explainRequestSchema = z
  .strictObject({
    key: idSchema.optional(),
    organisation: idSchema.optional(),
    visitor: z.literal(true).optional(),
    /** Id of a request whose decision a gateway still stores. */
    request: requestIdSchema.optional(),
    /** Recorded decision to explain: a line of a decision journal. */
    record: decisionRecordSchema.optional(),
    model: modelIdSchema.optional(),
    /** Host of the request: `shared` or a stack's id. */
    host: z.union([z.literal('shared'), stackIdSchema]).default('shared'),
    path: z.enum(explainedKinds).default('chat'),
    promptTokens: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(1),
    maxTokens: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
    /** Commit or time whose state is used. The default for a record is the position in the record. */
    at: moment.optional(),
    /** Whether to decide a hypothetical request like a gateway that the open change has reached. */
    wave: z.boolean().optional(),
    /** Second moment at which the request is explained too, so that the two can be compared. */
    diff: moment.optional(),
  })
  .refine(
    ({ key, organisation, visitor, request, record }) =>
      [key, organisation, visitor, request, record].filter((one) => one !== undefined).length === 1,
    { message: 'give one of key, organisation, visitor, request and record' },
  )
  .refine(({ wave, request, record }) => wave !== true || (request ?? record) === undefined, {
    message: 'a record already names the change that its gateway had',
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
  /** HTTP status of the response. Absent if no header was sent. */
  status: answer.status.optional(),
  /** Text of the refusal. If the request ended early, text that says who ended it, when and why. */
  message: z.string().optional(),
  endedBy: enderSchema.exclude(['deadline']).optional(),
  phase: phaseSchema.optional(),
});

const becauseSchema = z.object({
  position,
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
  /** Event that caused the result of this step. */
  because: becauseSchema.optional(),
  /** Open change that the result of this step depends on. */
  change: z.string().optional(),
});

export const explanationSchema = z.object({
  verdict: verdictSchema,
  /** Position of the state that led to the verdict. */
  at: position,
  gateway: z.string().optional(),
  time: z.string().optional(),
  /** Detailed cause of a refusal, shown only to operators, except that everyone sees that no model has the requested name. */
  cause: z.string().optional(),
  recorded: verdictSchema.optional(),
  /** Verdict that this version derives from the recorded facts. Absent if the request ended before it was decided. */
  rederived: verdictSchema.optional(),
  same: z.boolean().optional(),
  steps: z.array(explainedStepSchema),
  /** Step that decided the outcome. If several steps did, it is the one with the newest event. */
  decisive: z.string().optional(),
  /** Verdict as it was before the event of the decisive step. */
  before: z.object({ position, ...answer }).optional(),
  /** Changes to the state. Each one alone would let the request be served, as was tried on a copy of the state. */
  would: z.array(z.string()),
  assumptions: z.array(z.string()),
  diff: z
    .object({
      from: position,
      to: position,
      /** Steps whose results differ between the two moments. */
      steps: z.array(z.string()),
      /** Events between the two moments that explain the differences. */
      events: z.array(becauseSchema),
    })
    .optional(),
});
export type Explanation = z.infer<typeof explanationSchema>;
export type ExplainedStep = z.infer<typeof explainedStepSchema>;
export type Because = z.infer<typeof becauseSchema>;
export type ExplainedVerdict = z.infer<typeof verdictSchema>;
/** Verdict that follows from rules alone, so it always has a status. */
export type RuledVerdict = ExplainedVerdict & { readonly status: number };

export const explainMatrixSchema = z.object({
  items: z.array(
    z.object({
      model: z.string(),
      host: z.string(),
      /** Operation that was explained, which is `rerank` for models that can only rerank. */
      path: z.enum(explainedKinds),
      ...answer,
    }),
  ),
  /** Cursor to pass as `after` for the next page. Absent on the last page. */
  next: z.string().optional(),
  position,
});

/** Recorded decision of a request. `unanswered` lists gateways that did not respond and may have another one. */
export const gatewayDecisionSchema = z.object({
  decision: decisionRecordSchema,
  unanswered: z.array(z.string()),
});

/** Admin API operations on the running fleet: its replicas, gateways, signers, limits and decisions. */
import { z } from 'zod';
import { changeSchema } from '../events/changes.ts';
import { idSchema, modelIdSchema, stackIdSchema } from '../names.ts';
import { decisionRecordSchema, requestIdSchema } from '../records/decisions.ts';
import {
  explainMatrixSchema,
  explainRequestSchema,
  explanationSchema,
  gatewayDecisionSchema,
} from '../records/explanations.ts';
import {
  confirmationsSchema,
  fleetChangeSchema,
  gatewayStatusSchema,
  limitUseSchema,
  listSchema,
  logSignerSchema,
  pageSchema,
  position,
  replicaStatusSchema,
} from './admin-resources.ts';
import {
  commandQuerySchema,
  cursorInQuery,
  keyRoles,
  momentInQuery,
  numberInQuery,
  type OperationRows,
  operation,
  readingRoles,
  readQuerySchema,
} from './admin-row.ts';
import { bodySchemas, pathSchemas } from './commands.ts';
import { effectRequestSchema, effectSchema } from './effect.ts';

/** Longest wait in seconds. It exceeds the roughly 60 s after which a silent gateway that fences counts as confirmed. */
const waitSecondsMax = 75;
const gatewayParams = z.object({ name: z.string().min(1).max(200) });

export const fleetRows = {
  'document.get': operation('public', 'This document', {
    answer: z.looseObject({ openapi: z.string() }),
  }),
  'status.get': operation('operator', 'This replica and the log', {
    query: readQuerySchema,
    past: true,
    answer: replicaStatusSchema,
  }),
  'gateway.list': operation('operator', 'List gateways and their positions', {
    answer: listSchema(gatewayStatusSchema),
  }),
  'gateway.get': operation('operator', 'One gateway', { params: gatewayParams, answer: gatewayStatusSchema }),
  'change.list': operation('operator', 'List the open change and the changes that have ended, newest first', {
    answer: listSchema(changeSchema),
  }),
  'change.get': operation('operator', 'One staged change', {
    params: pathSchemas.id,
    answer: changeSchema.extend({ position }),
  }),
  'gateway.forget': operation(
    'operator',
    'Forget a removed gateway; a gateway that still runs stays in the list, and revocations wait for it',
    {
      params: gatewayParams,
      query: commandQuerySchema,
      answer: z.object({
        name: z.string(),
        /** Number of the gateway's processes, and number of those that reported in the last ten seconds. */
        ...{ forgotten: z.int().min(0), reporting: z.int().min(0).optional() },
        dryRun: z.literal(true).optional(),
        position,
      }),
    },
  ),
  // Members may call this, because anyone who may revoke a key may watch it take effect. The response never names tenants.
  'confirmations.get': operation(readingRoles, 'Wait until gateways have applied a position', {
    opens: 'wait',
    params: z.object({ position: numberInQuery.int().min(1) }),
    query: z.object({
      timeoutSeconds: numberInQuery.min(0).max(waitSecondsMax).default(waitSecondsMax),
    }),
    answer: confirmationsSchema,
  }),
  'snapshot.get': operation('gateway', 'Download the state as a SQLite file', {
    mediaType: 'application/vnd.sqlite3',
    answer: undefined,
  }),
  'counters.get': operation(
    'gateway',
    'Counters of all gateways: one line with the position, then one record per line',
    { mediaType: 'application/x-ndjson', answer: undefined },
  ),
  'signer.list': operation('operator', 'List the signers of the log', {
    query: readQuerySchema,
    past: true,
    answer: listSchema(logSignerSchema),
  }),
  'fleet.diff': operation('operator', 'Show what applying a fleet file would change', {
    body: bodySchemas.applyFleet,
    bodyKind: 'fleet',
    answer: z.object({ changes: z.array(fleetChangeSchema), position }),
  }),
  'limits.list': operation('operator', 'Use of all limits, starting with those nearest to their limit', {
    query: readQuerySchema.extend({ after: cursorInQuery.optional() }),
    answer: pageSchema(limitUseSchema),
  }),
  'limits.visitors': operation('operator', 'Use of the limits of all visitors together', {
    answer: limitUseSchema,
  }),
  'organisation.limits': operation(readingRoles, "Use of an organisation's limits", {
    params: z.object({ id: z.string() }),
    answer: limitUseSchema,
  }),
  'effect.get': operation(keyRoles, 'Requests that a command would answer differently, without running it', {
    opens: 'question',
    body: effectRequestSchema,
    bodyKind: 'fleet',
    answer: effectSchema,
  }),
  'decision.explain': operation(readingRoles, 'Explain a decision, recorded or hypothetical', {
    opens: 'question',
    past: true,
    /** Moment whose state the decision uses. It is in the URL, as in every operation that reads a past state. */
    query: z.object({ at: momentInQuery.optional() }),
    body: explainRequestSchema,
    answer: explanationSchema,
  }),
  'decision.matrix': operation(readingRoles, 'Each model at each host of an organisation', {
    opens: 'question',
    past: true,
    query: z.object({
      organisation: idSchema,
      host: z.union([z.literal('shared'), stackIdSchema]).optional(),
      /** Cursor for this page: the value of `next` in the response with the page before. */
      after: modelIdSchema.optional(),
      at: momentInQuery.optional(),
    }),
    answer: explainMatrixSchema,
  }),
  'decision.get': operation(readingRoles, 'The recorded decision of a request', {
    opens: 'question',
    params: z.object({ request: requestIdSchema }),
    answer: gatewayDecisionSchema,
  }),
  'decision.export': operation('operator', 'Recorded decisions of all gateways, one per line', {
    opens: 'export',
    query: z.object({
      /** Start of the exported time range, in ms since 1970. Defaults to one hour ago. */
      since: numberInQuery.min(0).optional(),
      gateway: z.string().min(1).max(200).optional(),
    }),
    mediaType: 'application/x-ndjson',
    answer: decisionRecordSchema,
  }),
} satisfies OperationRows;

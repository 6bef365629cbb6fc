/**
 * Builds the spans of a request from its record: one for the request, and one each for authenticate, shape, decide and node.
 * Names follow OpenTelemetry's conventions for HTTP and GenAI. Attributes contain no prompts, keys or other text from the
 * caller.
 */
import { operations } from '../../schemas/api/operations.ts';
import { type RecordedRequest, recordedFields } from '../../schemas/records/request-record.ts';
import { type Attributes, toAttributes } from '../records/project.ts';
import { outcomeOf, type RequestRecord } from '../request/request-record.ts';

export interface PlannedSpan {
  readonly name: string;
  readonly kind: 'server' | 'internal' | 'client';
  readonly id: string | undefined;
  /** Start of the span, in monotonic ms. */
  readonly startMs: number;
  readonly endMs: number;
  readonly failed: boolean;
  readonly attributes: Attributes;
}

/** Spans to create for a request. The first one is for the request as a whole. */
export function planSpans(record: RequestRecord, recorded: RecordedRequest, endMs: number): PlannedSpan[] {
  const { at, startMs, trace } = record;
  const spans: PlannedSpan[] = [requestSpan(record, recorded, endMs)];
  const phase = (name: string, from: number | undefined, to: number | undefined): void => {
    if (from === undefined) return;
    const failed = to === undefined && record.refusal !== undefined;
    const base = { name, kind: 'internal', id: undefined, attributes: {} } as const;
    spans.push({ ...base, startMs: from, endMs: to ?? endMs, failed });
  };
  phase('authenticate', startMs, at.accepted);
  phase('shape', at.read, at.shaped);
  phase('decide', at.shaped, at.decided);
  if (at.sent !== undefined && at.decided !== undefined)
    spans.push({
      ...nodeSpan(record, recorded),
      ...{ id: trace?.spans?.nodeId, startMs: at.decided, endMs },
    });
  return spans;
}

function requestSpan(record: RequestRecord, recorded: RecordedRequest, endMs: number): PlannedSpan {
  const { operation, method, status, startMs, trace } = record;
  const route = operations[operation?.kind ?? 'unknown'].path || undefined;
  const result = recordedFields(recorded, 'result');
  const attributes = toAttributes('span', recorded);
  if (route !== undefined) attributes['http.route'] = route;
  if (result !== undefined && result !== 'ok') attributes['error.type'] = result;
  // Drop the stack's name, which the caller chose, unless the key's organisation has a stack of that name.
  if (recordedFields(recorded, 'capacity') === undefined) delete attributes['headgate.stack'];
  return {
    name: route === undefined ? method : `${method} ${route}`,
    kind: 'server',
    id: trace?.spans?.requestId,
    startMs,
    endMs,
    failed: (status ?? 0) >= 500 || outcomeOf(record) === 'ended',
    attributes,
  };
}

function nodeSpan(
  { operation, outcome, refusal, at }: RequestRecord,
  recorded: RecordedRequest,
): Omit<PlannedSpan, 'id' | 'startMs' | 'endMs'> {
  const { countsAs } = operations[operation?.kind ?? 'unknown'];
  const name = countsAs === 'embedding' ? 'embeddings' : countsAs === 'rerank' ? 'rerank' : 'chat';
  const attributes = {
    'gen_ai.operation.name': name,
    'gen_ai.provider.name': 'headgate',
    ...toAttributes('nodeSpan', recorded),
  } as Attributes;
  const errorType = refusal?.type ?? (outcome?.kind === 'ended-early' ? outcome.by : undefined);
  if (errorType !== undefined) attributes['error.type'] = errorType;
  if (at.begun !== undefined && at.decided !== undefined)
    attributes['headgate.time_to_first_byte_ms'] = Math.round(at.begun - at.decided);
  return {
    name: `${name} ${recordedFields(recorded, 'model') || 'other'}`,
    kind: 'client',
    failed: outcome?.kind !== 'completed',
    attributes,
  };
}

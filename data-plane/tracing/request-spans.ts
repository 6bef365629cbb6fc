/**
 * The spans of one request, from what its record has at its end: request → authenticate, shape, decide, node, with the names
 * of the semantic conventions for HTTP and GenAI. No prompt, no key and no text of the caller is in an attribute.
 */
import { operations } from '../../schemas/operations.ts';
import type { RequestRecord } from '../request/gateway.ts';

export interface PlannedSpan {
  readonly name: string;
  readonly kind: 'server' | 'internal' | 'client';
  readonly id: string | undefined;
  /** Monotonic ms. */
  readonly startMs: number;
  readonly endMs: number;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
}

/** The request first. `isKnown`: other names of models are the caller's text. */
export function spansOf(
  record: RequestRecord,
  endMs: number,
  isKnown: (model: string) => boolean,
): PlannedSpan[] {
  const { at, startMs, trace } = record;
  const spans: PlannedSpan[] = [requestSpan(record, endMs)];
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
      ...nodeSpan(record, isKnown),
      ...{ id: trace?.spans?.nodeId, startMs: at.decided, endMs },
    });
  return spans;
}

/** The stack is there, and the key is of its organisation. */
function isPlaced({ decision }: RequestRecord): boolean {
  return decision !== undefined && 'capacity' in decision.placement;
}

function requestSpan(record: RequestRecord, endMs: number): PlannedSpan {
  const { operation, refusal, method, status, outcome, target, caller, stream, startMs, trace } = record;
  const route = operations[operation?.kind ?? 'unknown'].path || undefined;
  const errorType = refusal?.type ?? (outcome?.kind === 'ended-early' ? 'aborted' : undefined);
  return {
    name: route === undefined ? method : `${method} ${route}`,
    kind: 'server',
    id: trace?.spans?.requestId,
    startMs,
    endMs,
    failed: status >= 500 || outcome?.kind === 'ended-early',
    attributes: defined({
      'http.request.method': method,
      'http.route': route,
      'http.response.status_code': status,
      'error.type': errorType,
      'headgate.request_id': record.ids.requestId,
      'headgate.host_kind': target?.kind,
      // Of any other request the name is the caller's text, also next to a key that was accepted.
      'headgate.stack': target?.kind === 'stack' && isPlaced(record) ? target.stack : undefined,
      'headgate.organisation': caller?.kind === 'key' ? caller.owner.organisation : undefined,
      'headgate.stream': stream,
      'headgate.position': record.position,
    }),
  };
}

function nodeSpan(
  { operation, model, outcome, refusal, decision, at }: RequestRecord,
  isKnown: (model: string) => boolean,
): Omit<PlannedSpan, 'id' | 'startMs' | 'endMs'> {
  const { countsAs } = operations[operation?.kind ?? 'unknown'];
  const name = countsAs === 'embedding' ? 'embeddings' : 'chat';
  const shown = model !== undefined && isKnown(model) ? model : 'other';
  const usage = outcome?.kind === 'completed' ? outcome.usage : undefined;
  const placement = decision?.placement;
  return {
    name: `${name} ${shown}`,
    kind: 'client',
    failed: outcome?.kind !== 'completed',
    attributes: defined({
      'gen_ai.operation.name': name,
      'gen_ai.provider.name': 'headgate',
      'gen_ai.request.model': shown,
      'gen_ai.usage.input_tokens': usage?.promptTokens,
      'gen_ai.usage.output_tokens': usage?.completionTokens,
      'error.type': refusal?.type ?? (outcome?.kind === 'ended-early' ? outcome.by : undefined),
      'headgate.node': outcome?.node || undefined,
      'headgate.capacity': placement && 'capacity' in placement ? placement.capacity : undefined,
      'headgate.time_to_first_byte_ms':
        at.begun === undefined || at.decided === undefined ? undefined : Math.round(at.begun - at.decided),
    }),
  };
}

type Attribute = string | number | boolean;

function defined(attributes: Readonly<Record<string, Attribute | undefined>>): Record<string, Attribute> {
  return Object.fromEntries(
    Object.entries(attributes).filter((entry): entry is [string, Attribute] => entry[1] !== undefined),
  );
}

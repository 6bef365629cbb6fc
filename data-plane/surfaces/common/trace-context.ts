/** Implements W3C Trace Context. A client's valid `traceparent` is passed on to the node, but never identifies the caller. */
import { randomBytes } from 'node:crypto';

export interface RequestTrace {
  /** Value of the `traceparent` header in the request to the node. */
  readonly traceparent: string;
  /** Ids of the spans to export, or undefined if this request is not recorded. */
  readonly spans: SpanIds | undefined;
}

export interface SpanIds {
  readonly traceId: string;
  /** Id of the client's span, if the client sent one. */
  readonly parentId: string | undefined;
  readonly requestId: string;
  readonly nodeId: string;
}

interface TraceParent {
  readonly traceId: string;
  readonly parentId: string;
  readonly sampled: boolean;
}

const pattern = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const lengthMax = 256;

/** Parses a `traceparent` header, or returns undefined if it is invalid. Reads only the parts that version 00 defines. */
export function readTraceparent(header: unknown): TraceParent | undefined {
  if (typeof header !== 'string' || header.length > lengthMax) return undefined;
  const [, version, traceId, parentId, flags, rest] = pattern.exec(header) ?? [];
  if (traceId === undefined || parentId === undefined || flags === undefined) return undefined;
  if (version === '00' && rest !== undefined) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** A request's trace if there is no exporter: the client's trace as version 00, or undefined if the client sent none. */
export function passTrace(header: unknown): RequestTrace | undefined {
  if (header === undefined) return undefined;
  const parent = readTraceparent(header);
  return (
    parent && {
      traceparent: formatTraceparent(parent.traceId, parent.parentId, parent.sampled),
      spans: undefined,
    }
  );
}

/** Begins a request's trace. Records a fraction `ratio` of requests, unless the client decides (`followsClient`). */
export function beginTrace(header: unknown, ratio: number, followsClient = true): RequestTrace {
  const parent = readTraceparent(header);
  const sampled = (followsClient ? parent?.sampled : undefined) ?? Math.random() < ratio;
  const traceId = parent?.traceId ?? newId(16);
  if (!sampled)
    return { traceparent: formatTraceparent(traceId, parent?.parentId ?? newId(8), false), spans: undefined };
  const nodeId = newId(8);
  const spans = { traceId, parentId: parent?.parentId, requestId: newId(8), nodeId };
  return { traceparent: formatTraceparent(traceId, nodeId, true), spans };
}

function formatTraceparent(traceId: string, spanId: string, sampled: boolean): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** Creates a random id. It is never all zeros, which would be invalid. */
function newId(bytes: 8 | 16): string {
  const id = randomBytes(bytes);
  id[0] = (id[0] ?? 0) | 1;
  return id.toString('hex');
}

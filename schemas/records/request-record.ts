/**
 * Table of the facts that a gateway records about a request, with each fact's type, its audience, and its name in each kind
 * of record. Usage rows (for bills), decisions (for explanations), access log lines and spans are all built from this table,
 * so a fact means the same everywhere.
 */
import type { DecisionRecord } from './decisions.ts';
import type { UsageRow } from './usage.ts';

interface FieldTypes {
  text: string;
  /** Name of a model, or the empty string if the requested name must not be stored. */
  model: string;
  number: number;
  flag: boolean;
  /** Duration in tenths of a millisecond since the request line arrived. */
  tenths: number;
  /** State of a limit: use and remaining room at this gateway and, for a shared limit, use and reservations at others. */
  limit: readonly number[];
}

/** Path of a field in a record, such as `counters.poolTokens`. */
type PathIn<Of, Values = FieldTypes[keyof FieldTypes] | { readonly here: number }> = {
  [Name in keyof Of & string]-?: NonNullable<Of[Name]> extends Values
    ? Name
    : `${Name}.${PathIn<NonNullable<Of[Name]>>}`;
}[keyof Of & string];

/** Paths of a decision's fields, except constant fields (version, gateway) and the former name of a field. */
type DecisionPath = Exclude<PathIn<DecisionRecord>, 'v' | 'gateway' | 'promptTokens'>;
/** Names of a usage row's fields, except those that the outbox adds. */
type UsageName = Exclude<keyof UsageRow, 'v' | 'incarnation' | 'n' | 'replica'>;

interface Field {
  readonly type: keyof FieldTypes;
  /** Audience of the fact. `owner` means members of the request's organisation, and operators. */
  readonly seenBy: 'owner' | 'operator';
  readonly usage?: UsageName;
  readonly decision?: DecisionPath;
  /** Value that a decision contains instead of an unknown fact. */
  readonly otherwise?: string | number;
  readonly line?: string;
  /** Name of the fact's attribute in the span of the request. `nodeSpan` is the name in the span of the call to the node. */
  readonly span?: string;
  readonly nodeSpan?: string;
}

const text = { type: 'text', seenBy: 'owner' } as const;
const hidden = { type: 'text', seenBy: 'operator' } as const;
const number = { type: 'number', seenBy: 'owner' } as const;
const flag = { type: 'flag', seenBy: 'owner' } as const;
const time = { type: 'tenths', seenBy: 'owner' } as const;
/** Counter that only operators may see, because it covers several organisations or reveals what a tier has left. */
const counter = { type: 'number', seenBy: 'operator' } as const;
const limit = { type: 'limit', seenBy: 'operator' } as const;

const fields = {
  request: {
    ...text,
    usage: 'requestId',
    decision: 'req',
    line: 'req_id',
    span: 'headgate.request_id',
  },
  /** Time in ms since 1970 at which limits and routing were decided or the request was refused. */
  atMs: { ...number, decision: 'at' },
  position: { ...number, decision: 'position', line: 'position', span: 'headgate.position' },
  host: {
    ...text,
    decision: 'host',
    otherwise: 'unknown',
    line: 'host_kind',
    span: 'headgate.host_kind',
  },
  stack: { ...text, usage: 'stack', decision: 'stack', line: 'stack', span: 'headgate.stack' },
  method: { ...text, line: 'method', span: 'http.request.method' },
  operation: { ...text, decision: 'operation', otherwise: 'unknown', line: 'operation' },
  status: { ...number, decision: 'status', line: 'status', span: 'http.response.status_code' },
  served: { ...flag, decision: 'served' },
  /** Outcome in the access log: `ok`, `aborted`, or the type of the refusal. */
  result: { ...text, line: 'outcome' },
  type: { ...text, decision: 'type' },
  stage: { ...hidden, decision: 'stage', otherwise: 'admission' },
  cause: { ...hidden, decision: 'reason', line: 'cause' },
  message: { ...text, decision: 'message' },
  retryAfterSeconds: { ...number, decision: 'retryAfterSeconds' },
  organisation: {
    ...text,
    usage: 'organisation',
    decision: 'organisation',
    line: 'org_id',
    span: 'headgate.organisation',
  },
  /** Id of the key. It is set even for a refused request, if the key is known. */
  key: { ...text, usage: 'key', decision: 'key', line: 'key_id' },
  header: { ...hidden, decision: 'header' },
  /** Reason why no key was found. Absent if one was found. */
  fault: { ...hidden, decision: 'fault' },
  carried: { ...flag, decision: 'carried' },
  fenced: { ...flag, decision: 'fenced' },
  outboxFull: { ...flag, decision: 'outboxFull' },
  visitor: { ...hidden, usage: 'visitor', decision: 'visitor' },
  /** Requested model. Only names that may be stored are, because any other text may contain a prompt or a misplaced key. */
  model: {
    type: 'model',
    seenBy: 'owner',
    usage: 'model',
    decision: 'model',
    line: 'model',
    nodeSpan: 'gen_ai.request.model',
  },
  stream: { ...flag, line: 'stream', span: 'headgate.stream' },
  /** Number of prompt tokens that was compared with the limits. It is an upper bound or a node's count. */
  promptBound: { ...number, decision: 'promptTokensMax', otherwise: 0 },
  promptLeast: { ...number, decision: 'promptTokensLeast' },
  counted: { ...text, decision: 'counted', otherwise: 'bound' },
  maxTokens: { ...number, decision: 'maxTokens' },
  /** Number of prompt tokens that were billed. */
  promptTokens: {
    ...number,
    usage: 'promptTokens',
    decision: 'usage.promptTokens',
    line: 'tokens_in',
    nodeSpan: 'gen_ai.usage.input_tokens',
  },
  completionTokens: {
    ...number,
    usage: 'completionTokens',
    decision: 'usage.completionTokens',
    line: 'tokens_out',
    nodeSpan: 'gen_ai.usage.output_tokens',
  },
  capacity: {
    ...text,
    usage: 'draw',
    decision: 'capacity',
    line: 'decision',
    nodeSpan: 'headgate.capacity',
  },
  node: { ...hidden, decision: 'node', line: 'node', nodeSpan: 'headgate.node' },
  /** `completed`, or the party that ended the request early. */
  outcome: { ...text, decision: 'outcome' },
  /** Way in which the request ended, with the reason. */
  finish: { ...hidden, decision: 'finish', line: 'finish' },
  accepted: { ...time, decision: 'ms.accepted' },
  read: { ...time, decision: 'ms.read' },
  shaped: { ...time, decision: 'ms.shaped' },
  decided: { ...time, decision: 'ms.decided' },
  sent: { ...time, decision: 'ms.sent' },
  /** Time until the first byte of the response. */
  begun: { ...time, usage: 'ttftMs', decision: 'ms.begun' },
  end: { ...time, usage: 'durationMs', decision: 'ms.end', otherwise: 0, line: 'duration_ms' },
  windowUsed: { ...counter, decision: 'counters.windowUsed', otherwise: 0 },
  inFlight: { ...counter, decision: 'counters.inFlight', otherwise: 0 },
  poolTokens: { ...counter, decision: 'counters.poolTokens', otherwise: 0 },
  freeTurns: { ...counter, decision: 'counters.freeTurns', otherwise: 0 },
  // This field and the others before `change` are recorded only if their limit applied to the request.
  requests: { ...limit, decision: 'counters.requests' },
  concurrency: { ...limit, decision: 'counters.concurrency' },
  networkTurns: { ...counter, decision: 'counters.networkTurns' },
  visitorWindow: { ...counter, decision: 'counters.visitors.windowUsed' },
  visitorsInFlight: { ...counter, decision: 'counters.visitors.inFlight' },
  visitorTokens: { ...counter, decision: 'counters.visitors.tokens' },
  visitorRequests: { ...limit, decision: 'counters.visitors.requests' },
  visitorConcurrency: { ...limit, decision: 'counters.visitors.concurrency' },
  /** Open change whose rows the decision used. This is the last field, because few requests have it. */
  change: { ...hidden, decision: 'change', line: 'change' },
  // This field and the following ones are only in usage rows.
  completed: { ...text, usage: 'at' },
  period: { ...text, usage: 'period' },
  network: { ...hidden, usage: 'network' },
  estimated: { ...flag, usage: 'estimated' },
} as const satisfies Record<string, Field>;

type Fields = typeof fields;
type Kind = 'usage' | 'decision' | 'line' | 'span' | 'nodeSpan';
type NamesIn<Of extends Kind> = Extract<Fields[keyof Fields], { readonly [Each in Of]: string }>[Of];
/** Fields of decisions and usage rows that this table lacks. The type of `requestFields` ensures that there are none. */
type Forgotten = Exclude<DecisionPath, NamesIn<'decision'>> | Exclude<UsageName, NamesIn<'usage'>>;

export const requestFields: [Forgotten] extends [never] ? Fields : Forgotten = fields;

/** Names of the facts that are recorded when a request ends: all except those that only usage rows contain. */
export type RecordedName = {
  [Name in keyof Fields]: Exclude<Kind, 'usage'> & keyof Fields[Name] extends never ? never : Name;
}[keyof Fields];
export type RecordedValue<Name extends RecordedName> = FieldTypes[Fields[Name]['type']] | undefined;

/** Recorded facts of a request, in the order of the table `fields`. */
export type RecordedRequest = readonly (FieldTypes[keyof FieldTypes] | undefined)[];
/** One field of a kind of record: its name there, and the index of its value in a `RecordedRequest`. */
export interface RecordColumn {
  readonly at: number;
  readonly name: string;
  readonly type: Field['type'];
  readonly otherwise: Field['otherwise'];
}

const recorded = Object.entries<Field>(fields).filter(
  ([, { decision, line, span, nodeSpan }]) => (decision ?? line ?? span ?? nodeSpan) !== undefined,
);
export const recordedNames = recorded.map(([name]) => name as RecordedName);

export function recordColumns(kind: Exclude<Kind, 'usage'>): readonly RecordColumn[] {
  return recorded.flatMap(([, { [kind]: name, type, otherwise }], at) =>
    name === undefined ? [] : [{ at, name, type, otherwise }],
  );
}

export function recordedFields<Name extends RecordedName>(
  request: RecordedRequest,
  name: Name,
): RecordedValue<Name> {
  return request[recordedNames.indexOf(name)] as RecordedValue<Name>;
}

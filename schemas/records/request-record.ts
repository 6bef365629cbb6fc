/**
 * What a gateway records of a request, one row for each fact: its type, who may see it, and by which name it stands in which
 * record. A usage row bills a request that completed, a decision explains any request, a line of the access log and the
 * attributes of spans are for operators. Each of these is made of the rows that name it, so a fact means the same in all.
 */
import type { DecisionRecord } from './decisions.ts';
import type { UsageRow } from './usage.ts';

interface FieldTypes {
  text: string;
  /** Of a model; empty where one was asked for by a name that may not be kept. */
  model: string;
  number: number;
  flag: boolean;
  /** Tenths of a millisecond since the request line. */
  tenths: number;
  /** Of a limit: used here, and room; then what others used and held, where they share it. */
  limit: readonly number[];
}

/** The paths of what a record has, `counters.poolTokens` for one. */
type PathIn<Of, Values = FieldTypes[keyof FieldTypes] | { readonly here: number }> = {
  [Name in keyof Of & string]-?: NonNullable<Of[Name]> extends Values
    ? Name
    : `${Name}.${PathIn<NonNullable<Of[Name]>>}`;
}[keyof Of & string];

/** Excludes the version and the gateway, which are the same in all of a gateway's decisions, and a former name of another field. */
type DecisionPath = Exclude<PathIn<DecisionRecord>, 'v' | 'gateway' | 'promptTokens'>;
/** What the outbox adds to a row. */
type UsageName = Exclude<keyof UsageRow, 'v' | 'incarnation' | 'n' | 'replica'>;

interface Field {
  readonly type: keyof FieldTypes;
  /** `owner`: members of the organisation whose request it was, and operators. */
  readonly seenBy: 'owner' | 'operator';
  readonly usage?: UsageName;
  readonly decision?: DecisionPath;
  /** What a decision has where it is not known. */
  readonly otherwise?: string | number;
  readonly line?: string;
  /** An attribute of the span of the request, or of its part at the node. */
  readonly span?: string;
  readonly nodeSpan?: string;
}

const text = { type: 'text', seenBy: 'owner' } as const;
const hidden = { type: 'text', seenBy: 'operator' } as const;
const number = { type: 'number', seenBy: 'owner' } as const;
const flag = { type: 'flag', seenBy: 'owner' } as const;
const time = { type: 'tenths', seenBy: 'owner' } as const;
/** Counters that are not of one organisation alone, or say what its tier leaves. */
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
  /** When limits and route were decided, or it was refused; ms since 1970. */
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
  /** `ok`, `aborted`, or the type of the refusal. */
  result: { ...text, line: 'outcome' },
  type: { ...text, decision: 'type' },
  stage: { ...hidden, decision: 'stage', otherwise: 'admission' },
  /** The cause of a refusal, as text. */
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
  /** Also of one that is known and was refused. */
  key: { ...text, usage: 'key', decision: 'key', line: 'key_id' },
  header: { ...hidden, decision: 'header' },
  /** Why no key was found. */
  fault: { ...hidden, decision: 'fault' },
  carried: { ...flag, decision: 'carried' },
  fenced: { ...flag, decision: 'fenced' },
  outboxFull: { ...flag, decision: 'outboxFull' },
  visitor: { ...hidden, usage: 'visitor', decision: 'visitor' },
  /** Only a name that may be kept: any other text is the caller's, and may be a prompt, or a key in the wrong place. */
  model: {
    type: 'model',
    seenBy: 'owner',
    usage: 'model',
    decision: 'model',
    line: 'model',
    nodeSpan: 'gen_ai.request.model',
  },
  stream: { ...flag, line: 'stream', span: 'headgate.stream' },
  /** What limits counted of the prompt: a bound from above, or what a node counted. */
  promptBound: { ...number, decision: 'promptTokensMax', otherwise: 0 },
  promptLeast: { ...number, decision: 'promptTokensLeast' },
  counted: { ...text, decision: 'counted', otherwise: 'bound' },
  maxTokens: { ...number, decision: 'maxTokens' },
  /** What is billed. */
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
  /** `completed`, or by whom it ended early. */
  outcome: { ...text, decision: 'outcome' },
  /** The same, with the reason. */
  finish: { ...hidden, decision: 'finish', line: 'finish' },
  accepted: { ...time, decision: 'ms.accepted' },
  read: { ...time, decision: 'ms.read' },
  shaped: { ...time, decision: 'ms.shaped' },
  decided: { ...time, decision: 'ms.decided' },
  sent: { ...time, decision: 'ms.sent' },
  /** The first byte of the answer. */
  begun: { ...time, usage: 'ttftMs', decision: 'ms.begun' },
  end: { ...time, usage: 'durationMs', decision: 'ms.end', otherwise: 0, line: 'duration_ms' },
  windowUsed: { ...counter, decision: 'counters.windowUsed', otherwise: 0 },
  inFlight: { ...counter, decision: 'counters.inFlight', otherwise: 0 },
  poolTokens: { ...counter, decision: 'counters.poolTokens', otherwise: 0 },
  freeTurns: { ...counter, decision: 'counters.freeTurns', otherwise: 0 },
  // Only what was limited has the rest.
  requests: { ...limit, decision: 'counters.requests' },
  concurrency: { ...limit, decision: 'counters.concurrency' },
  networkTurns: { ...counter, decision: 'counters.networkTurns' },
  visitorWindow: { ...counter, decision: 'counters.visitors.windowUsed' },
  visitorsInFlight: { ...counter, decision: 'counters.visitors.inFlight' },
  visitorTokens: { ...counter, decision: 'counters.visitors.tokens' },
  visitorRequests: { ...limit, decision: 'counters.visitors.requests' },
  visitorConcurrency: { ...limit, decision: 'counters.visitors.concurrency' },
  /** The open change whose rows it was decided on; at the end, because few requests have it. */
  change: { ...hidden, decision: 'change', line: 'change' },
  // Of a usage row alone.
  completed: { ...text, usage: 'at' },
  period: { ...text, usage: 'period' },
  network: { ...hidden, usage: 'network' },
  estimated: { ...flag, usage: 'estimated' },
} as const satisfies Record<string, Field>;

type Fields = typeof fields;
type Kind = 'usage' | 'decision' | 'line' | 'span' | 'nodeSpan';
/** The names in one kind of record. */
type NamesIn<Of extends Kind> = Extract<Fields[keyof Fields], { readonly [Each in Of]: string }>[Of];
/** What the schemas of decisions and rows have, and no row here. */
type Forgotten = Exclude<DecisionPath, NamesIn<'decision'>> | Exclude<UsageName, NamesIn<'usage'>>;

export const requestFields: [Forgotten] extends [never] ? Fields : Forgotten = fields;

/** All but those of a usage row alone: what is known of any request at its end. */
export type RecordedName = {
  [Name in keyof Fields]: Exclude<Kind, 'usage'> & keyof Fields[Name] extends never ? never : Name;
}[keyof Fields];
export type Recorded<Name extends RecordedName> = FieldTypes[Fields[Name]['type']] | undefined;

/** The fields of a request that were recorded, in the order of the table. */
export type RecordedRequest = readonly (FieldTypes[keyof FieldTypes] | undefined)[];
/** A field of one kind of record: its place in the recorded request, and its name in the record. */
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

export function columnsOf(kind: Exclude<Kind, 'usage'>): readonly RecordColumn[] {
  return recorded.flatMap(([, { [kind]: name, type, otherwise }], at) =>
    name === undefined ? [] : [{ at, name, type, otherwise }],
  );
}

export function recordedIn<Name extends RecordedName>(request: RecordedRequest, name: Name): Recorded<Name> {
  return request[recordedNames.indexOf(name)] as Recorded<Name>;
}

/** Builds log lines and decision records, whose fields request-record.ts lists. Unknown values are left out. */
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import {
  type RecordColumn,
  type RecordedRequest,
  recordColumns,
} from '../../schemas/records/request-record.ts';

type Fields = Record<string, unknown>;

const columns = {
  decision: recordColumns('decision').map((column) => ({ ...column, path: column.name.split('.') })),
  line: recordColumns('line'),
  span: recordColumns('span'),
  nodeSpan: recordColumns('nodeSpan'),
};
const limitFields = ['here', 'room', 'elsewhere', 'held'];
/** Template for log lines, with all fields. Adding a field to an object later would cost more than copying all of them. */
const emptyLine: Fields = Object.fromEntries(columns.line.map(({ name }) => [name, undefined]));

/** Builds a log line. Fields that are undefined do not appear in its JSON. */
export function toLogLine(request: RecordedRequest): object {
  const line: Fields = { ...emptyLine };
  for (const { at, name, type } of columns.line) {
    const value = request[at];
    if (type === 'tenths') line[name] = Math.round(Number(value) / 10);
    else line[name] = type === 'model' && value === '' ? 'other' : value;
  }
  return line;
}

export type Attributes = Record<string, string | number | boolean>;

export function toAttributes(kind: 'span' | 'nodeSpan', request: RecordedRequest): Attributes {
  const attributes: Attributes = {};
  for (const { at, name } of columns[kind]) {
    const value = request[at];
    if (value !== undefined && value !== '' && typeof value !== 'object') attributes[name] = value;
  }
  return attributes;
}

/** Builds a decision record. A stored request contains null for unknown values, because it was written as JSON. */
export function toDecisionRecord(request: readonly unknown[], gateway: string): DecisionRecord {
  const decision: Fields = { v: 1, gateway, ms: {}, counters: {} };
  for (const column of columns.decision) {
    const value = decisionValue(column, request[column.at]);
    if (value !== undefined) put(decision, column.path, value);
  }
  decision['promptTokens'] = decision['promptTokensMax'];
  return decision as unknown as DecisionRecord;
}

function decisionValue({ type, otherwise }: RecordColumn, kept: unknown): unknown {
  const value = kept ?? otherwise;
  if (value === undefined || (type === 'model' && value === '')) return undefined;
  if (type === 'tenths') return Number(value) / 10;
  if (type !== 'limit' || !Array.isArray(value)) return value;
  return Object.fromEntries(value.map((part, at) => [limitFields[at], part]));
}

function put(into: Fields, [name = '', ...below]: readonly string[], value: unknown): void {
  if (below.length === 0) into[name] = value;
  else {
    into[name] ??= {};
    put(into[name] as Fields, below, value);
  }
}

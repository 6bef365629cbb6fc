/** Converts recorded requests to rows for display, and filters them. Unknown values of a stored request are null. */
import type { GatewayQuery, GatewayRow } from '../../schemas/admin/gateway-requests.ts';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import {
  deriveOutcome,
  deriveVerdict,
  type RequestOutcome,
  recordedEnds,
} from '../../schemas/records/verdict.ts';

/** Values of a recorded request, either directly as recorded or as read back from the journal. */
export type WrittenRequest = readonly unknown[];

const cellOf = Object.fromEntries(recordedNames.map((name, at) => [name, at])) as Record<
  RecordedName,
  number
>;

function readText(request: WrittenRequest, name: RecordedName): string | undefined {
  const value = request[cellOf[name]];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function readNumber(request: WrittenRequest, name: RecordedName): number | undefined {
  const value = request[cellOf[name]];
  return typeof value === 'number' ? value : undefined;
}

function readMs(request: WrittenRequest, name: RecordedName): number | undefined {
  const tenths = readNumber(request, name);
  return tenths === undefined ? undefined : tenths / 10;
}

function readOutcome(request: WrittenRequest): RequestOutcome {
  return deriveOutcome({ served: request[cellOf.served] === true, outcome: readText(request, 'outcome') });
}

export function readHost(request: WrittenRequest): string {
  const host = readText(request, 'host') ?? 'unknown';
  return host === 'stack' ? (readText(request, 'stack') ?? 'unknown') : host;
}

/** Row for a request. Members that are undefined do not appear in its JSON. */
type Row = { readonly [Name in keyof GatewayRow]-?: GatewayRow[Name] | undefined };

export function toRow(request: WrittenRequest, n?: number): Row {
  const atMs = readNumber(request, 'atMs') ?? 0;
  const durationMs = readMs(request, 'end') ?? 0;
  const decidedMs = readMs(request, 'decided') ?? durationMs;
  const { outcome, status, endedBy } = deriveVerdict({
    served: request[cellOf.served] === true,
    outcome: readText(request, 'outcome'),
    status: readNumber(request, 'status'),
    ms: { decided: readMs(request, 'decided'), begun: readMs(request, 'begun') },
  });
  return {
    request: readText(request, 'request') ?? '',
    at: new Date(atMs).toISOString(),
    organisation: readText(request, 'organisation'),
    key: readText(request, 'key'),
    visitor: readText(request, 'visitor') === undefined ? undefined : true,
    host: readHost(request),
    operation: readText(request, 'operation') ?? 'unknown',
    model: readText(request, 'model'),
    verdict: outcome,
    status: status ?? 0,
    type: readText(request, 'type'),
    cause: readText(request, 'cause'),
    endedBy,
    node: readText(request, 'node'),
    promptTokens: readNumber(request, 'promptTokens'),
    completionTokens: readNumber(request, 'completionTokens'),
    firstTokenMs: readMs(request, 'begun'),
    durationMs,
    position: readNumber(request, 'position') ?? 0,
    endedMs: atMs + durationMs - decidedMs,
    n,
  };
}

const compared = ['request', 'type', 'model', 'key', 'node'] as const satisfies readonly RecordedName[];

/** Whether the query may match the request. Control planes check again, because only they know a refused key's owner. */
export function isMeant(request: WrittenRequest, query: GatewayQuery): boolean {
  const { outcome, organisation, slowerThanMs = -1, sinceMs } = query;
  if (compared.some((name) => query[name] !== undefined && query[name] !== request[cellOf[name]]))
    return false;
  const owner = readOwner(request);
  if (organisation !== undefined && owner !== undefined && owner !== organisation) return false;
  if (outcome !== undefined && readOutcome(request) !== outcome) return false;
  return (
    (readNumber(request, 'atMs') ?? 0) >= sinceMs &&
    (slowerThanMs === -1 || (readMs(request, 'end') ?? 0) > slowerThanMs)
  );
}

/** Organisation that sent the request, null if there is none, or undefined if only the control plane knows it. */
function readOwner(request: WrittenRequest): string | null | undefined {
  const organisation = readText(request, 'organisation');
  if (organisation !== undefined) return organisation;
  return readText(request, 'key') === undefined ? null : undefined;
}

const outcomeTexts: Readonly<Record<RequestOutcome, readonly string[]>> = {
  served: [],
  refused: Object.keys(refusalKinds),
  ended: recordedEnds,
};

/** Creates a cheap check of whether a group's text may contain a match. Parsing the text costs twenty times as much. */
export function mayHave(query: GatewayQuery): (text: string) => boolean {
  const { type, model, key, node, outcome } = query;
  const named = [type, model, key, node].filter((each) => each !== undefined).map((each) => [each]);
  const all = [...named, outcome === undefined ? [] : outcomeTexts[outcome]].filter(
    ({ length }) => length > 0,
  );
  const needed = all.map((texts) => texts.map((each) => JSON.stringify(each)));
  return (text) => needed.every((texts) => texts.some((each) => text.includes(each)));
}

/** Requests as rows that people follow, and which of them a filter means. Of what is kept; what is not known is null there. */
import type { GatewayQuery, GatewayRow } from '../../schemas/admin/gateway-requests.ts';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import { type RecordedName, recordedNames } from '../../schemas/records/request-record.ts';
import {
  outcomeFrom,
  type RequestOutcome,
  recordedEnds,
  verdictFrom,
} from '../../schemas/records/verdict.ts';

/** As it was recorded or kept. */
export type WrittenRequest = readonly unknown[];

const cellOf = Object.fromEntries(recordedNames.map((name, at) => [name, at])) as Record<
  RecordedName,
  number
>;

function textIn(request: WrittenRequest, name: RecordedName): string | undefined {
  const value = request[cellOf[name]];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function numberIn(request: WrittenRequest, name: RecordedName): number | undefined {
  const value = request[cellOf[name]];
  return typeof value === 'number' ? value : undefined;
}

function msIn(request: WrittenRequest, name: RecordedName): number | undefined {
  const tenths = numberIn(request, name);
  return tenths === undefined ? undefined : tenths / 10;
}

function outcomeIn(request: WrittenRequest): RequestOutcome {
  return outcomeFrom({ served: request[cellOf.served] === true, outcome: textIn(request, 'outcome') });
}

export function hostOf(request: WrittenRequest): string {
  const host = textIn(request, 'host') ?? 'unknown';
  return host === 'stack' ? (textIn(request, 'stack') ?? 'unknown') : host;
}

/** Members that are undefined are no part of its JSON. */
type Row = { readonly [Name in keyof GatewayRow]-?: GatewayRow[Name] | undefined };

export function rowOf(request: WrittenRequest, n?: number): Row {
  const atMs = numberIn(request, 'atMs') ?? 0;
  const durationMs = msIn(request, 'end') ?? 0;
  const decidedMs = msIn(request, 'decided') ?? durationMs;
  const { outcome, status, endedBy } = verdictFrom({
    served: request[cellOf.served] === true,
    outcome: textIn(request, 'outcome'),
    status: numberIn(request, 'status'),
    ms: { decided: msIn(request, 'decided'), begun: msIn(request, 'begun') },
  });
  return {
    request: textIn(request, 'request') ?? '',
    at: new Date(atMs).toISOString(),
    organisation: textIn(request, 'organisation'),
    key: textIn(request, 'key'),
    visitor: textIn(request, 'visitor') === undefined ? undefined : true,
    host: hostOf(request),
    operation: textIn(request, 'operation') ?? 'unknown',
    model: textIn(request, 'model'),
    verdict: outcome,
    status: status ?? 0,
    type: textIn(request, 'type'),
    cause: textIn(request, 'cause'),
    endedBy,
    node: textIn(request, 'node'),
    promptTokens: numberIn(request, 'promptTokens'),
    completionTokens: numberIn(request, 'completionTokens'),
    firstTokenMs: msIn(request, 'begun'),
    durationMs,
    position: numberIn(request, 'position') ?? 0,
    endedMs: atMs + durationMs - decidedMs,
    n,
  };
}

const compared = ['request', 'type', 'model', 'key', 'node'] as const satisfies readonly RecordedName[];

/** Whether a filter means a request, or may mean it: whose a refused key is the control plane knows. */
export function isMeant(request: WrittenRequest, query: GatewayQuery): boolean {
  const { outcome, organisation, slowerThanMs = -1, sinceMs } = query;
  if (compared.some((name) => query[name] !== undefined && query[name] !== request[cellOf[name]]))
    return false;
  const owner = ownerOf(request);
  if (organisation !== undefined && owner !== undefined && owner !== organisation) return false;
  if (outcome !== undefined && outcomeIn(request) !== outcome) return false;
  return (
    (numberIn(request, 'atMs') ?? 0) >= sinceMs &&
    (slowerThanMs === -1 || (msIn(request, 'end') ?? 0) > slowerThanMs)
  );
}

/** Of the key; undefined: of a key whose organisation is not recorded; null: of nobody. */
function ownerOf(request: WrittenRequest): string | null | undefined {
  const organisation = textIn(request, 'organisation');
  if (organisation !== undefined) return organisation;
  return textIn(request, 'key') === undefined ? null : undefined;
}

const outcomeTexts: Readonly<Record<RequestOutcome, readonly string[]>> = {
  served: [],
  refused: Object.keys(refusalKinds),
  ended: recordedEnds,
};

/**
 * Whether the text of a group may have a request that a filter means. To search a text costs a twentieth of what reading it does,
 * and most filters mean few requests.
 */
export function mayHave(query: GatewayQuery): (text: string) => boolean {
  const { type, model, key, node, outcome } = query;
  const named = [type, model, key, node].filter((each) => each !== undefined).map((each) => [each]);
  const all = [...named, outcome === undefined ? [] : outcomeTexts[outcome]].filter(
    ({ length }) => length > 0,
  );
  const needed = all.map((texts) => texts.map((each) => JSON.stringify(each)));
  return (text) => needed.every((texts) => texts.some((each) => text.includes(each)));
}

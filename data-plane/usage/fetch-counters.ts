/**
 * Fetches the counters of all gateways from a control plane, for a gateway that has no copy of them. The response contains
 * one line with the position that the control plane has reached in the topic, and one line per record. It is untrusted, so
 * only valid records within the bounds are used. If no control plane answers, the topic is read from its beginning.
 */
import { StringDecoder } from 'node:string_decoder';
import { adminPrefix, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { type CounterRecord, limitRecordBytesMax, readCounterRecord } from '../../schemas/records/limits.ts';
import type { CounterState } from '../../shared/limits/counters.ts';
import { httpGet } from '../../shared/runtime/http-get.ts';

/** Maximum time in ms to wait for the head of a response, and then for each part of its body. */
const silentMsMax = 10_000;
/** Maximum time in ms for one response. After that, the next control plane is tried. The topic itself is read last. */
const fetchMsMax = 60_000;
const bytesMax = 512 * 1024 * 1024;

export interface FetchCountersOptions {
  readonly controlPlanes: readonly string[];
  readonly token: string;
  readonly state: CounterState;
  readonly timeoutMs?: number;
}

/** Returns the topic position up to which the fetched counters are complete, or undefined if no control plane answered. */
export async function fetchCounters(options: FetchCountersOptions): Promise<number | undefined> {
  for (const base of [...options.controlPlanes].sort(() => Math.random() - 0.5)) {
    const position = await fetchFrom(base, options).catch(() => undefined);
    if (position !== undefined) return position;
  }
  return undefined;
}

async function fetchFrom(
  base: string,
  { token, state, timeoutMs = fetchMsMax }: FetchCountersOptions,
): Promise<number | undefined> {
  const answer = await httpGet(`${base}${adminPrefix}${operationRoute('counters.get').path}`, {
    headers: { authorization: `Bearer ${token}` },
    ...{ headMs: silentMsMax, silentMs: silentMsMax },
    signal: AbortSignal.timeout(timeoutMs),
  });
  if (answer.statusCode !== 200) {
    answer.destroy();
    return undefined;
  }
  let position: number | undefined;
  for await (const line of linesWithin(answer)) {
    const record = readCounterRecord(Buffer.from(line));
    if (record !== undefined) restore(state, record);
    else position ??= positionIn(line);
  }
  return position;
}

function restore(state: CounterState, { replica: id, process, name, at, entries }: CounterRecord): void {
  state.restore({ id, process, name, ownMs: at, anyMs: at }, entries);
}

/** Splits a response's body into lines. Throws as soon as a line or the whole body is too long, even before a line break. */
async function* linesWithin(body: AsyncIterable<Buffer>): AsyncIterable<string> {
  const decoder = new StringDecoder('utf8');
  let bytes = 0;
  let rest = '';
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooMuch();
    const lines = (rest + decoder.write(chunk)).split('\n');
    rest = lines.pop() ?? '';
    if ([...lines, rest].some((line) => line.length > limitRecordBytesMax)) throw tooMuch();
    yield* lines;
  }
}

const tooMuch = (): Error => new Error('the response contains more counters than a control plane may send');

function positionIn(line: string): number | undefined {
  const { position } = JSON.parse(line) as { position?: unknown };
  return typeof position === 'number' && Number.isSafeInteger(position) && position >= 0
    ? position
    : undefined;
}

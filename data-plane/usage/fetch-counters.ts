/**
 * Fetches the counters that a control plane has read, for a gateway without a copy: one line with the position in the topic,
 * then one record per line. The answer is untrusted, so only valid records within the bounds count. If none can be fetched,
 * the topic is read from its beginning.
 */
import { StringDecoder } from 'node:string_decoder';
import { adminPrefix, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { type CounterRecord, limitRecordBytesMax, readCounterRecord } from '../../schemas/records/limits.ts';
import type { CounterState } from '../../shared/limits/counters.ts';
import { httpGet } from '../../shared/runtime/http-get.ts';

/** Longest wait in ms for an answer's head, and between two of its pieces. */
const silentMsMax = 10_000;
/** Longest time in ms for one answer. Then the next control plane is asked, and finally the topic is read. */
const fetchMsMax = 60_000;
const bytesMax = 512 * 1024 * 1024;

export interface FetchCountersOptions {
  readonly controlPlanes: readonly string[];
  readonly token: string;
  readonly state: CounterState;
  /** Longest time for one control plane's answer, in ms. */
  readonly timeoutMs?: number;
}

/** Returns the position up to which the state contains all records; undefined if no control plane answered. */
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

/** Splits a body into lines. Throws at the first line or byte beyond the bounds, even without line breaks. */
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

const tooMuch = (): Error => new Error('more counters than a control plane sends');

function positionIn(line: string): number | undefined {
  const { position } = JSON.parse(line) as { position?: unknown };
  return typeof position === 'number' && Number.isSafeInteger(position) && position >= 0
    ? position
    : undefined;
}

/**
 * Asks gateways for recorded decisions. Questions are signed and contain no secret, because reported addresses may be false.
 */
import type { Dispatcher } from 'undici';
import { type DecisionRecord, decisionRecordSchema } from '../../schemas/records/decisions.ts';
import type { Closers } from '../../shared/runtime/closers.ts';
import { questionScheme, type SignedQuestion, signQuestion } from '../../shared/status/signed-question.ts';
import { recordsId } from './fleet-rows.ts';
import type { StatusBoard } from './status-board.ts';

export interface DecisionSources {
  readonly board: Pick<StatusBoard, 'gateways'>;
  readonly gatewayToken: string;
  readonly previousGatewayToken?: string | undefined;
  /** Time limit in ms for asking all gateways about one decision. */
  readonly askTimeoutMs?: number | undefined;
  readonly gatewayAgent?: Dispatcher | undefined;
}

/** Creates a dispatcher for gateways whose certificates share one name, or returns undefined if no name is set. */
export async function gatewayAgent(
  tlsName: string | undefined,
  closers: Closers,
): Promise<Dispatcher | undefined> {
  if (tlsName === undefined) return undefined;
  const { Agent } = await import('undici');
  const agent = new Agent({ connect: { servername: tlsName } });
  closers.add(() => agent.destroy());
  return agent;
}

export interface Source {
  readonly name: string;
  readonly incarnation: string;
  /** Id of the gateway's data folder, which contains its decision records; see `recordsId`. */
  readonly records: string;
  /** Whether the gateway's status reports contain request counts. */
  readonly countsTraffic: boolean;
  readonly url: string | undefined;
  /** Token that signed the gateway's last report, or undefined if that is not known. */
  readonly token: string | undefined;
  readonly seenMs: number;
}

const timeoutMsDefault = 3_000;
/** Longest wait in ms for the next piece of an export. `wholeTimeoutMs` limits the whole export from one gateway. */
const idleTimeoutMs = 30_000;
const wholeTimeoutMs = 3_600_000;

export function selectSources(sources: DecisionSources, name: string | undefined): Source[] {
  // `signedBy` in a report is an index into this list.
  const tokens = [sources.gatewayToken, sources.previousGatewayToken];
  return sources.board
    .gateways()
    .filter(({ report }) => report.stopped !== true && (name === undefined || report.name === name))
    .map(({ report, signedBy = -1, seenMs }) => ({
      ...{ name: report.name, incarnation: report.incarnation, url: report.metrics, seenMs },
      records: recordsId(report),
      countsTraffic: report.countsTraffic === true,
      token: tokens[signedBy],
    }));
}

/** Asks all gateways for a request's decision, which only one of them made. Stops when `client` aborts. */
export async function askDecision(
  sources: DecisionSources,
  id: string,
  client = new AbortController().signal,
): Promise<{ readonly decision?: DecisionRecord; readonly unanswered: string[] }> {
  const way = resolveRoute(sources, client, sources.askTimeoutMs ?? timeoutMsDefault);
  const { answers, silent } = await askAll(selectSources(sources, undefined), async (source) => {
    for await (const lines of ask(source, `/decisions/${id}`, way))
      return decisionRecordSchema.parse(JSON.parse(lines));
    return undefined;
  });
  const decision = answers.find((each) => each !== undefined);
  return { ...(decision !== undefined && { decision }), unanswered: silent };
}

/** Asks all given gateways. Returns their answers and the names of gateways that did not answer. Never rejects. */
export async function askAll<Answer>(
  found: readonly Source[],
  answerOf: (source: Source) => Promise<Answer>,
): Promise<{ readonly answers: Answer[]; readonly silent: string[] }> {
  const answered = await Promise.allSettled(found.map(answerOf));
  return {
    answers: answered.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : [])),
    silent: found
      .filter((_source, at) => answered[at]?.status === 'rejected')
      .map(({ name }) => name)
      .sort(),
  };
}

/** Yields the decisions since `sinceMs`, gateway by gateway. Returns the names of gateways that did not answer completely. */
export async function* decisionLines(
  sources: DecisionSources,
  sinceMs: number,
  gateway: string | undefined,
): AsyncGenerator<string, string[]> {
  const unanswered: string[] = [];
  const path = `/decisions?since=${Math.floor(sinceMs)}`;
  for (const source of selectSources(sources, gateway)) {
    try {
      const signal = AbortSignal.timeout(wholeTimeoutMs);
      yield* askUnlessIdle(source, path, { dispatcher: sources.gatewayAgent, signal }, idleTimeoutMs);
    } catch {
      unanswered.push(source.name);
    }
  }
  return unanswered;
}

export interface Way {
  readonly dispatcher: Dispatcher | undefined;
  readonly signal: AbortSignal;
}

/**
 * Returns how to reach the gateways: the dispatcher, and a signal that aborts at the time limit or when the client aborts.
 */
export function resolveRoute(
  { gatewayAgent: dispatcher }: DecisionSources,
  client: AbortSignal,
  timeoutMs: number,
): Way {
  return { dispatcher, signal: AbortSignal.any([client, AbortSignal.timeout(timeoutMs)]) };
}

/** Yields complete lines from one gateway. Throws if the gateway sends nothing for `idleMs` or its response is cut off. */
export async function* askUnlessIdle(
  source: Source,
  path: string,
  way: Way,
  idleMs: number,
): AsyncGenerator<string, void> {
  const idle = new AbortController();
  const timer = setTimeout(() => idle.abort(), idleMs);
  try {
    const signal = AbortSignal.any([idle.signal, way.signal]);
    for await (const lines of ask(source, path, { ...way, signal })) {
      timer.refresh();
      yield lines;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Asks one gateway, and yields the text of its response after authenticating it. */
export async function* ask(source: Source, path: string, way: Way): AsyncGenerator<string, void> {
  const { token, incarnation, url } = source;
  if (token === undefined) throw new Error('it has not reported by itself since this replica started');
  const address = `${listenerUrl(url)}${path}`;
  const { answer, authorization } = await challenged(address, way, (challenge) =>
    signQuestion(token, { incarnation, path, challenge }),
  );
  const { statusCode, body } = await get(address, way, { authorization });
  if (statusCode === 200) yield* answer(body);
  else {
    await discard(body);
    throw new Error(`HTTP ${statusCode}`);
  }
}

async function challenged(
  address: string,
  way: Way,
  sign: (challenge: string) => SignedQuestion,
): Promise<SignedQuestion> {
  const { headers, body } = await get(address, way);
  await discard(body);
  const [scheme, challenge = ''] = String(headers['www-authenticate'] ?? '').split(' challenge=', 2);
  if (scheme !== questionScheme) throw new Error('it does not send a challenge');
  return sign(challenge);
}

/** Sends a GET request. Does not follow redirects. */
async function get(
  address: string,
  { dispatcher, signal }: Way,
  headers: Readonly<Record<string, string>> = {},
): Promise<Dispatcher.ResponseData> {
  // Imported on first use, because loading `undici` takes a tenth of the process's start time.
  const { request } = await import('undici');
  return request(address, { headers, signal, ...(dispatcher && { dispatcher }) });
}

const discardedMax = 16 * 1024;

/** Reads the rest of a body, so that its connection can be reused. */
function discard(body: Dispatcher.ResponseData['body']): Promise<void> {
  return body.dump({ limit: discardedMax });
}

/** Returns the origin of a listener. Throws if the address contains anything else, such as a path. */
function listenerUrl(url: string | undefined): string {
  if (url === undefined) throw new Error('it does not report where its decisions are');
  const { protocol, origin, href } = new URL(url);
  if (!/^https?:$/.test(protocol) || href !== `${origin}/`)
    throw new Error('its listener has no valid address');
  return origin;
}

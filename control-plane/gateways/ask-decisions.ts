/**
 * Asks the gateways for what they decided, at the addresses of their reports. Anybody with an accepted token can report any
 * address, so no secret is sent there: questions and answers are signed with the token that signed the report.
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
  /** For one decision. */
  readonly askTimeoutMs?: number | undefined;
  readonly gatewayAgent?: Dispatcher | undefined;
}

/**
 * For gateways whose certificates share one name: a process in a cluster is reached under a name of its own, which is in no
 * certificate. Undefined: each must be valid for the host of its address.
 */
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
  /** Data folder with its records, identified by `recordsId`. */
  readonly records: string;
  /** Whether its status reports count its requests. */
  readonly countsTraffic: boolean;
  readonly url: string | undefined;
  /** Of the one that signed the report; undefined where that is not known. */
  readonly token: string | undefined;
  readonly seenMs: number;
}

const timeoutMsDefault = 3_000;
/** Between two pieces of an export, and for the whole of one gateway's. */
const idleTimeoutMs = 30_000;
const wholeTimeoutMs = 3_600_000;

export function selectSources(sources: DecisionSources, name: string | undefined): Source[] {
  // In the order in which the board counts them.
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

/** The decision of a request, from the one gateway that made it; the others do not have it. Ends early with the signal. */
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

/** What each of them answers, and the names of those that did not. Never rejects. */
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

/** Lines of decisions since a time, gateway after gateway; returns the names of those that did not answer whole. */
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

/** The time that there is for an answer of all gateways. */
export function resolveRoute(
  { gatewayAgent: dispatcher }: DecisionSources,
  client: AbortSignal,
  timeoutMs: number,
): Way {
  return { dispatcher, signal: AbortSignal.any([client, AbortSignal.timeout(timeoutMs)]) };
}

/** Whole lines of one gateway, which must not be silent for longer. Throws where it does not answer to the end. */
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

/** The answer, as far as it proves itself. */
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
  if (scheme !== questionScheme) throw new Error('it gives out no challenge');
  return sign(challenge);
}

/** Follows no redirect. */
async function get(
  address: string,
  { dispatcher, signal }: Way,
  headers: Readonly<Record<string, string>> = {},
): Promise<Dispatcher.ResponseData> {
  // Loaded on use: it is a tenth of what a start costs.
  const { request } = await import('undici');
  return request(address, { headers, signal, ...(dispatcher && { dispatcher }) });
}

const discardedMax = 16 * 1024;

/** A connection that was read to its end is used again. */
function discard(body: Dispatcher.ResponseData['body']): Promise<void> {
  return body.dump({ limit: discardedMax });
}

/** Host and port of a listener, and nothing that would lead elsewhere. */
function listenerUrl(url: string | undefined): string {
  if (url === undefined) throw new Error('it does not report where its decisions are');
  const { protocol, origin, href } = new URL(url);
  if (!/^https?:$/.test(protocol) || href !== `${origin}/`)
    throw new Error('this is no address of a listener');
  return origin;
}

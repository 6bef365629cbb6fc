/**
 * Serves the decision journal on the gateway's metrics listener. `/decisions/REQ` returns one record. `/decisions?since=`
 * returns all records since a time in ms since 1970, by default since one hour ago, as JSON lines. Paths below `/requests`
 * return rows (serve-requests.ts).
 *
 * Control planes sign their queries (shared/status/signed-question.ts). The gateway token itself is accepted too: from people
 * on this machine, and from control planes of older builds.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Registry } from 'prom-client';
import { type DecisionRecord, requestIdSchema } from '../../schemas/records/decisions.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import { isSameSecret } from '../../shared/runtime/secrets.ts';
import { questionScheme, type SealAnswer, SignedQuestions } from '../../shared/status/signed-question.ts';
import { type DecisionJournal, JournalSilent } from './decision-journal.ts';
import { isOfRequests, RequestsAnswers } from './serve-requests.ts';

const sinceMsDefault = 3600 * 1000;
const json = { 'content-type': 'application/json; charset=utf-8' };
const jsonLines = { 'content-type': 'application/x-ndjson' };

/** Answers a request for decisions. Returns false if the path is not one that this file serves. */
export function decisionRoute(
  journal: DecisionJournal | undefined,
  { token, incarnation }: { readonly token: string; readonly incarnation: string },
): (request: IncomingMessage, response: ServerResponse) => Promise<boolean> {
  const questions = new SignedQuestions(token, incarnation);
  const answers = journal && new RequestsAnswers(journal);
  return async (request, response) => {
    const { url = '', headers } = request;
    const [path = '', query = ''] = url.split('?', 2);
    if (path !== '/decisions' && !path.startsWith('/decisions/') && !isOfRequests(path)) return false;
    const { authorization = '' } = headers;
    const seal = questions.accept(url, authorization);
    const given = /^bearer +(\S+)$/i.exec(authorization)?.[1];
    if (seal === undefined && !isSameSecret(given, token)) {
      response.setHeader('www-authenticate', `${questionScheme} challenge=${questions.challenge()}`);
      refuse(
        response,
        401,
        'send a question signed with the gateway token, or the token itself; operators use headgate explain',
      );
    } else if (journal === undefined || answers === undefined)
      refuse(response, 404, 'this gateway does not record decisions (--decisions off)');
    else if (isOfRequests(path))
      await sendRequests(answers, path, new URLSearchParams(query), response, seal);
    else if (path === '/decisions') await streamSince(journal, new URLSearchParams(query), response, seal);
    else await sendOne(journal, path.slice('/decisions/'.length), response, seal);
    return true;
  };
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, json).end(`${JSON.stringify({ error: { message } })}\n`);
}

async function sendOne(
  journal: DecisionJournal,
  id: string,
  response: ServerResponse,
  seal: SealAnswer | undefined,
): Promise<void> {
  const isId = requestIdSchema.safeParse(id).success;
  const record = isId ? await journal.find(id).catch(silent) : undefined;
  if (record === 'silent') refuse(response, 503, 'the decision journal does not answer; try again');
  else if (seal) await send(response, seal(decisionLines([record === undefined ? [] : [record]])));
  else if (record === undefined)
    refuse(response, 404, isId ? 'this gateway has no decision of this request' : 'this is not a request id');
  else response.writeHead(200, json).end(`${JSON.stringify(record)}\n`);
}

function silent(error: unknown): 'silent' {
  if (error instanceof JournalSilent) return 'silent';
  throw error;
}

async function streamSince(
  journal: DecisionJournal,
  query: URLSearchParams,
  response: ServerResponse,
  seal: SealAnswer | undefined,
): Promise<void> {
  const asked = query.get('since');
  const sinceMs = asked === null ? wallClockMs() - sinceMsDefault : Number(asked);
  if (!Number.isFinite(sinceMs)) return refuse(response, 400, 'since must be in milliseconds since 1970');
  const pages = decisionLines(journal.since(sinceMs));
  await send(response, seal ? seal(pages) : joined(pages));
}

async function sendRequests(
  answers: RequestsAnswers,
  path: string,
  query: URLSearchParams,
  response: ServerResponse,
  seal: SealAnswer | undefined,
): Promise<void> {
  const client = new AbortController();
  response.once('close', () => client.abort());
  const pages = answers.to(path, query, client.signal);
  if (pages === 'unknown') refuse(response, 400, 'this question about requests is not valid');
  else if (pages === 'busy') refuse(response, 503, 'too many questions about requests are open; try again');
  else await send(response, seal ? seal(pages) : joined(pages));
}

async function send(response: ServerResponse, pieces: AsyncIterable<string>): Promise<void> {
  response.writeHead(200, jsonLines);
  // Ignore errors. If the connection breaks, the client notices that the end of the response is missing.
  await pipeline(Readable.from(pieces), response).catch(silent);
}

async function* decisionLines(
  pages: AsyncIterable<readonly DecisionRecord[]> | Iterable<readonly DecisionRecord[]>,
): AsyncIterable<readonly string[]> {
  for await (const page of pages) yield page.map((record) => `${JSON.stringify(record)}\n`);
}

async function* joined(pages: AsyncIterable<readonly string[]>): AsyncIterable<string> {
  for await (const lines of pages) yield lines.join('');
}

export function countDecisions(registry: Registry, journal: DecisionJournal): void {
  const metrics = new ObservedMetrics(registry);
  metrics.gauge(
    'headgate_decisions_written',
    'decisions recorded in the journal since the start',
    () => journal.state.written,
  );
  metrics.gauge(
    'headgate_decisions_dropped',
    'decisions not recorded since the start',
    () => journal.state.dropped,
  );
  metrics.gauge('headgate_decisions_bytes', 'size of the decision journal', () => journal.state.bytes);
}

/**
 * The decision journal on the gateway's metrics listener, for holders of the gateway token: `/decisions/REQ` is one record,
 * `/decisions?since=` all since then as JSON lines (ms since 1970; an hour where it is left out).
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Gauge, type Registry } from 'prom-client';
import { requestIdSchema } from '../../schemas/decisions.ts';
import { isSameSecret } from '../../shared/runtime/secrets.ts';
import { type DecisionJournal, JournalSilent } from './decision-journal.ts';

const sinceMsDefault = 3600 * 1000;
const json = { 'content-type': 'application/json; charset=utf-8' };

/** Answers a request for decisions; false where it is for something else. */
export function decisionRoute(
  journal: DecisionJournal | undefined,
  token: string,
): (request: IncomingMessage, response: ServerResponse) => Promise<boolean> {
  return async (request, response) => {
    const [path = '', query = ''] = (request.url ?? '').split('?', 2);
    if (path !== '/decisions' && !path.startsWith('/decisions/')) return false;
    const given = /^bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
    if (!isSameSecret(given, token)) refuse(response, 401, 'the gateway token is missing or not valid');
    else if (journal === undefined)
      refuse(response, 404, 'this gateway keeps no decisions (--decisions off)');
    else if (path === '/decisions') await sendSince(journal, new URLSearchParams(query), response);
    else await sendOne(journal, path.slice('/decisions/'.length), response);
    return true;
  };
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, json).end(`${JSON.stringify({ error: { message } })}\n`);
}

async function sendOne(journal: DecisionJournal, id: string, response: ServerResponse): Promise<void> {
  if (!requestIdSchema.safeParse(id).success) return refuse(response, 404, 'this is no id of a request');
  const record = await journal.find(id).catch(silent);
  if (record === 'silent') refuse(response, 503, 'the decision journal does not answer; try again');
  else if (record === undefined) refuse(response, 404, 'no decision of this request is kept here');
  else response.writeHead(200, json).end(`${JSON.stringify(record)}\n`);
}

function silent(error: unknown): 'silent' {
  if (error instanceof JournalSilent) return 'silent';
  throw error;
}

async function sendSince(
  journal: DecisionJournal,
  query: URLSearchParams,
  response: ServerResponse,
): Promise<void> {
  const asked = query.get('since');
  const sinceMs = asked === null ? Date.now() - sinceMsDefault : Number(asked);
  if (!Number.isFinite(sinceMs)) return refuse(response, 400, 'since must be in ms since 1970');
  response.writeHead(200, { 'content-type': 'application/x-ndjson' });
  // What breaks off is seen as such: the answer has no end then.
  await pipeline(Readable.from(lines(journal, sinceMs)), response).catch(silent);
}

async function* lines(journal: DecisionJournal, sinceMs: number): AsyncIterable<string> {
  for await (const page of journal.since(sinceMs))
    yield page.map((record) => `${JSON.stringify(record)}\n`).join('');
}

export function countDecisions(registry: Registry, journal: DecisionJournal): void {
  const gauge = (name: string, help: string, value: () => number): Gauge =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value());
      },
    });
  gauge(
    'headgate_decisions_written',
    'decisions in the journal since the start',
    () => journal.state.written,
  );
  gauge('headgate_decisions_dropped', 'decisions not kept since the start', () => journal.state.dropped);
  gauge('headgate_decisions_bytes', 'size of the decision journal', () => journal.state.bytes);
}

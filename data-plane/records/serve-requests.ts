/**
 * Serves requests on the gateway's internal listener, as JSON lines (schemas/admin/gateway-requests.ts). `/requests` returns
 * a page of rows, `/requests/live` a stream of rows, and `/requests/sample` a sample of completed requests as decision
 * records.
 */
import { type GatewayQuery, gatewayQuerySchema } from '../../schemas/admin/gateway-requests.ts';
import type { DecisionJournal } from './decision-journal.ts';
import { followedRequests, requestPages } from './read-requests.ts';
import { requestSample } from './sample-requests.ts';

type Pages = AsyncIterable<readonly string[]>;
type Answer = (journal: DecisionJournal, query: GatewayQuery, client: AbortSignal) => Pages;

interface Route {
  readonly answer: Answer;
  /** Maximum number of responses of this route that may be open at once. */
  readonly openMax: number;
}

const routes: Readonly<Record<string, Route>> = {
  '/requests': { answer: (journal, query) => requestPages(journal, query), openMax: 8 },
  '/requests/sample': { answer: (journal, query) => requestSample(journal, query), openMax: 2 },
  '/requests/live': { answer: followedRequests, openMax: 128 },
};

export function isOfRequests(path: string): boolean {
  return Object.hasOwn(routes, path);
}

export class RequestsAnswers {
  readonly #journal: DecisionJournal;
  readonly #open = new Map<string, number>();

  constructor(journal: DecisionJournal) {
    this.#journal = journal;
  }

  /** Answers a query. Returns `unknown` if the path or query is invalid, and `busy` if too many responses are open. */
  to(path: string, query: URLSearchParams, client: AbortSignal): Pages | 'unknown' | 'busy' {
    const route = routes[path];
    const parsed = gatewayQuerySchema.safeParse(Object.fromEntries(query));
    if (route === undefined || !parsed.success) return 'unknown';
    const open = this.#open.get(path) ?? 0;
    if (open >= route.openMax) return 'busy';
    this.#open.set(path, open + 1);
    client.addEventListener('abort', () => this.#open.set(path, (this.#open.get(path) ?? 1) - 1));
    return route.answer(this.#journal, parsed.data, client);
  }
}

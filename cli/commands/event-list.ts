/** The table of events, and reading a list of events in pages. */
import type { AdminClient, Query } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
import { resourcesIn } from '../../admin-client/answers.ts';
import { eventText } from '../../schemas/event-sentences.ts';
import { ageColumn, column, longColumn, type View } from '../terminal/render.ts';
import { cellText } from '../terminal/text.ts';

/** What it did, as the console says it. */
export function eventOf({ type, data }: Resource): string {
  return eventText(String(type), data);
}

/** The same with the reason. */
export function eventAndWhy(event: Resource): string {
  return event['why'] === undefined ? eventOf(event) : `${eventOf(event)}: ${cellText(event['why'])}`;
}

export const eventView: View = {
  columns: [
    column('POSITION', 'position'),
    ageColumn('AGE', 'at'),
    column('TYPE', 'type'),
    longColumn('BY', 'by'),
    column('VIA', 'via'),
    { heading: 'EVENT', cell: eventAndWhy, isLong: true },
  ],
  name: (resource) => resource['position'],
};

/** Selects events. */
export interface EventQuery {
  readonly from?: number;
  readonly to?: number;
  readonly type?: string;
  readonly limit?: number;
  /** From the newest end. */
  readonly newest?: boolean;
  readonly org?: string;
  readonly key?: string;
  readonly stack?: string;
  readonly node?: string;
  readonly actor?: string;
  readonly text?: string;
}
/** Maximum events of one request; longer lists are read in pages. */
const pageMax = 10_000;

/** All selected events, read in as many pages as needed. */
export async function allEvents(
  api: AdminClient,
  options: EventQuery,
): Promise<Resource & { readonly items: Resource[] }> {
  const { limit = Number.POSITIVE_INFINITY } = options;
  const items: Resource[] = [];
  let query = firstPage(options);
  for (;;) {
    const left = limit - items.length;
    const answer = await api.run('event.list', { ...query, ...(left < pageMax && { limit: left }) }, 120_000);
    items.push(...resourcesIn(answer, 'items'));
    const next = nextPage(query, answer);
    if (next === undefined || items.length >= limit) return { ...answer, items: items.slice(0, limit) };
    query = next;
  }
}

function firstPage({ from, to, type, newest, org, key, stack, node, actor, text }: EventQuery): Query {
  const order = newest ? 'desc' : undefined;
  return { from, to, order, type, organisation: org, key, stack, node, actor, text };
}

function nextPage(query: Query, answer: Resource): Query | undefined {
  const { nextFrom, nextTo } = answer;
  if (typeof nextFrom === 'number' && nextFrom > Number(query['from'] ?? 0))
    return { ...query, from: nextFrom };
  if (typeof nextTo === 'number' && nextTo < Number(query['to'] ?? Number.POSITIVE_INFINITY))
    return { ...query, to: nextTo };
  return undefined;
}

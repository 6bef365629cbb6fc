/** The table of events, and reading a list of events in pages. */
import type { AdminClient, Query } from '../../admin-client/admin-client.ts';
import type { Resource } from '../../admin-client/answers.ts';
import { resourcesIn } from '../../admin-client/answers.ts';
import { column, type View } from '../terminal/render.ts';

export const eventView: View = {
  columns: [
    column('POSITION', 'position'),
    column('AT', 'at'),
    column('TYPE', 'type'),
    column('BY', 'by'),
    column('VIA', 'via'),
    column('DATA', 'data'),
    column('WHY', 'why'),
  ],
  name: (resource) => resource['position'],
};

/** Selects events. */
export interface EventQuery {
  readonly from?: number;
  readonly to?: number;
  readonly type?: string;
  readonly limit?: number;
}
/** Maximum events of one request; longer lists are read in pages. */
const pageMax = 10_000;

/** All selected events, read in as many pages as needed. */
export async function allEvents(
  api: AdminClient,
  options: EventQuery,
): Promise<Resource & { readonly items: Resource[] }> {
  const { type, to, limit = Number.POSITIVE_INFINITY } = options;
  const items: Resource[] = [];
  let from = options.from;
  for (;;) {
    const left = limit - items.length;
    const query: Query = { from, to, type, limit: left < pageMax ? left : undefined };
    const answer = await api.get('/events', { ...query }, 120_000);
    items.push(...resourcesIn(answer, 'items'));
    const next = answer['nextFrom'];
    if (typeof next !== 'number' || next <= (from ?? 0) || items.length >= limit)
      return { items: items.slice(0, limit), position: answer['position'] };
    from = next;
  }
}

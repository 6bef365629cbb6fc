/** Prints events as a table, and reads long lists of events in pages. */

import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import { eventText } from '../../schemas/events/event-sentences.ts';
import type { AdminClient } from '../admin-client/admin-client.ts';
import type { Resource } from '../admin-client/answers.ts';
import { listMember } from '../admin-client/answers.ts';
import { ageColumn, column, longColumn, type View } from '../terminal/render.ts';
import { cellText } from '../terminal/text.ts';

/** Describes an event in the same words as the console does. */
export function describeEvent({ type, data }: Resource): string {
  return eventText(String(type), data);
}

export function describeEventWithReason(event: Resource): string {
  return event['why'] === undefined
    ? describeEvent(event)
    : `${describeEvent(event)}: ${cellText(event['why'])}`;
}

export const eventView: View = {
  columns: [
    column('POSITION', 'position'),
    ageColumn('AGE', 'at'),
    column('TYPE', 'type'),
    longColumn('BY', 'by'),
    column('VIA', 'via'),
    { heading: 'EVENT', cell: describeEventWithReason, isLong: true },
  ],
  name: (resource) => resource['position'],
};

export type EventQuery = OperationInput<'event.list'>;
/** Maximum number of events per request. Longer lists are read in pages. */
const pageMax = 10_000;

export async function readAllEvents(
  api: AdminClient,
  asked: EventQuery,
): Promise<Resource & { readonly items: Resource[] }> {
  const { limit = Number.POSITIVE_INFINITY } = asked;
  const items: Resource[] = [];
  let query = asked;
  for (;;) {
    const left = limit - items.length;
    const answer = await api.run('event.list', { ...query, ...(left < pageMax && { limit: left }) }, 120_000);
    items.push(...listMember(answer, 'items'));
    const next = nextPage(query, answer);
    if (next === undefined || items.length >= limit) return { ...answer, items: items.slice(0, limit) };
    query = next;
  }
}

function nextPage(
  query: EventQuery,
  { nextFrom, nextTo }: OperationAnswer<'event.list'>,
): EventQuery | undefined {
  if (nextFrom !== undefined && nextFrom > (query.from ?? 0)) return { ...query, from: nextFrom };
  if (nextTo !== undefined && nextTo < (query.to ?? Number.POSITIVE_INFINITY))
    return { ...query, to: nextTo };
  return undefined;
}

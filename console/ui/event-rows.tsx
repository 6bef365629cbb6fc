/** Card that lists events. Each row is a sentence about an event, with the time as a link to the event log. */
import type { ComponentChildren } from 'preact';
import type { ListedEvent } from '../../schemas/admin/admin-history.ts';
import { withQuery } from '../lib/api.ts';
import { ago, count, moment as momentText } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { moment } from '../lib/travel.ts';
import { EventSentence } from './name.tsx';
import { Card } from './parts.tsx';

export interface EventRowsProps {
  readonly label: string;
  readonly events: readonly ListedEvent[];
  /** Returns additional content to show with an event. */
  readonly stateOf?: (event: ListedEvent) => ComponentChildren;
}

export function EventRows({ label, events, stateOf }: EventRowsProps) {
  return (
    <ul class="rows aligned" aria-label={label}>
      {events.map((event) => (
        <li key={`${event.position}.${event.index}`}>
          <EventSentence event={event} />
          <span class="row-end">
            {stateOf?.(event)}
            <a
              class="muted"
              href={withQuery('/events', { before: event.position })}
              title={`position ${count(event.position)}, ${momentText(event.at)}`}
            >
              <time dateTime={event.at}>{ago(event.at)}</time>
            </a>
          </span>
        </li>
      ))}
    </ul>
  );
}

export interface EventsCardProps {
  readonly title: string;
  readonly label: string;
  /** Filter of the event log that selects the events to list. */
  readonly about: Readonly<Record<string, string>>;
  readonly limit?: number;
  /** Text of the link that leads to all matching events. */
  readonly more: string;
  readonly isWide?: boolean;
  /** Text to show if there are no events. */
  readonly none?: string;
}

/** Card with the newest events about one thing, up to the moment that the page shows. */
export function EventsCard({ title, label, about, limit = 8, more, isWide, none }: EventsCardProps) {
  const query = { ...about, order: 'desc', limit, at: moment() } as const;
  const { data } = useRead('event.list', query, { isFixed: moment() !== undefined });
  const { text, ...filters } = about;
  return (
    <Card
      title={title}
      isWide={isWide}
      more={<a href={withQuery('/events', { ...filters, q: text })}>{more}</a>}
    >
      {data?.items.length === 0 && none !== undefined ? <p class="muted">{none}</p> : null}
      <EventRows label={label} events={data?.items ?? []} />
    </Card>
  );
}

/** Events in a card: each a sentence, with its moment, which leads to the event in the log. */
import type { ComponentChildren } from 'preact';
import type { ListedEvent } from '../../schemas/admin-history.ts';
import { withQuery } from '../lib/api.ts';
import { ago, count, moment } from '../lib/format.ts';
import { EventSentence } from './name.tsx';

export interface EventRowsProps {
  readonly label: string;
  readonly events: readonly ListedEvent[];
  /** What is to be said of each in addition. */
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
              title={`position ${count(event.position)}, ${moment(event.at)}`}
            >
              <time dateTime={event.at}>{ago(event.at)}</time>
            </a>
          </span>
        </li>
      ))}
    </ul>
  );
}

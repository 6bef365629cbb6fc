/** Page that shows the event log as a live list, newest event first. Each event can be opened to see its data. */

import { useEffect, useRef, useState } from 'preact/hooks';
import type { ListedEvent } from '../../schemas/admin/admin-history.ts';
import { withQuery } from '../lib/api.ts';
import { type ExplainQuery, explainLink } from '../lib/explain.ts';
import { ago, count, moment, plural, shellWord } from '../lib/format.ts';
import { onEvents, position } from '../lib/live.ts';
import { useRead } from '../lib/read.ts';
import { location, setQuery } from '../lib/router.ts';
import { me } from '../lib/session.ts';
import { Fields } from '../ui/moment.tsx';
import { EventSentence, RowName } from '../ui/name.tsx';
import { PageHeader } from '../ui/page.tsx';
import { Badge, Button, Copy, Empty, Failure, Loading } from '../ui/parts.tsx';

/** Number of events to read at once. A live page also keeps up to `keptMax` newer events. */
const eventsPerPage = 200;
const keptMax = 500;
/** Time in ms for which new events are collected before they are drawn together. */
const gatherMs = 100;
/** URL parameters for filters that the control plane applies to the whole log. */
const filters = ['type', 'organisation', 'key', 'stack', 'node', 'actor'] as const;

type Filter = Readonly<Record<(typeof filters)[number], string>> & { readonly text: string };

/** Reads the filter and the position from the URL. */
function useWanted() {
  const { query } = location.value;
  const [head, setHead] = useState(() => Math.max(position.value, me.value?.position ?? 0));
  const before = Number(query.get('before') ?? '') || undefined;
  const named = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? '']));
  const filter = { ...named, text: query.get('q') ?? '' } as Filter;
  const readUpTo = (to: number): void => setHead((read) => Math.max(read, to));
  return { filter, before, last: before ?? head, readUpTo };
}

/** Whether a live event matches the filter. The control plane filters only the events that are read as a list. */
function matches({ type, by, data }: ListedEvent, filter: Filter): boolean {
  if (filter.type !== '' && type !== filter.type) return false;
  if (filter.actor !== '' && by !== filter.actor) return false;
  const body = JSON.stringify(data);
  const names = [filter.organisation, filter.key, filter.stack, filter.node].filter((name) => name !== '');
  if (!names.every((name) => body.includes(`"${name}"`))) return false;
  const text = `${type} ${by} ${body}`.toLowerCase();
  return filter.text === '' || text.includes(filter.text.toLowerCase());
}

export function EventsPage() {
  const { filter, before, last, readUpTo } = useWanted();
  const { text, ...named } = filter;
  const query = { ...named, text, to: last, order: 'desc', limit: eventsPerPage } as const;
  const { data, failure, refresh } = useRead(last === 0 ? undefined : 'event.list', query, { isFixed: true });
  const live = useTail(before === undefined, last, readUpTo).filter((event) => matches(event, filter));
  const list = JSON.stringify([filter, before]);
  const shown = useRef<{ readonly list: string; readonly events: readonly ListedEvent[] } | undefined>(
    undefined,
  );
  // While the list is being read again, the previous one stays visible.
  const earlier = data?.items ?? (shown.current?.list === list ? shown.current.events : []);
  const found = [...live, ...earlier];
  if (data) shown.current = { list, events: found };
  const options = Object.entries(filter).map(([name, value]) =>
    value === '' ? '' : ` --${name === 'organisation' ? 'org' : name} ${shellWord(value)}`,
  );
  return (
    <>
      <PageHeader
        title="Events"
        lead={
          before === undefined
            ? 'Newest first. New events appear automatically.'
            : `Events up to position ${count(before)}.`
        }
        cli={`headgate events list --newest${options.join('')}`}
      >
        {before === undefined ? null : <Button onClick={() => setQuery({ before: '' })}>Show newest</Button>}
      </PageHeader>
      <Filters filter={filter} shown={found.length} />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data || found.length > 0 ? <EventList events={found} /> : failure ? null : <Loading />}
      {data?.nextTo !== undefined && data.nextTo > 0 ? (
        <p class="more">
          <Button onClick={() => setQuery({ before: String(data.nextTo) })}>Show earlier events</Button>
        </p>
      ) : null}
    </>
  );
}

/** Returns live events after a position, newest first. If there are too many, calls `readUpTo` to read the list again. */
function useTail(
  isLive: boolean,
  after: number,
  readUpTo: (position: number) => void,
): readonly ListedEvent[] {
  const [events, setEvents] = useState<readonly ListedEvent[]>([]);
  const isNew = ({ position: seq }: ListedEvent): boolean => seq > after;
  const kept = events.filter(isNew);
  useEffect(() => {
    if (!isLive) return undefined;
    setEvents([]);
    readUpTo(position.value);
    let gathered: ListedEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (): void => {
      const arrived = gathered.toReversed();
      gathered = [];
      timer = undefined;
      const [newest] = arrived;
      if (newest && arrived.length > keptMax) readUpTo(newest.position);
      else setEvents((before) => [...arrived, ...before].slice(0, keptMax + arrived.length));
    };
    const stop = onEvents((arrived) => {
      if (arrived === undefined) return readUpTo(position.value);
      gathered = [...gathered, ...arrived].slice(-keptMax - 1);
      timer ??= setTimeout(show, gatherMs);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [isLive]);
  useEffect(() => {
    if (kept.length > keptMax) readUpTo(kept[0]?.position ?? 0);
  }, [kept.length]);
  return kept;
}

interface FiltersProps {
  readonly filter: Filter;
  readonly shown: number;
}

const clearedFilters = Object.fromEntries(['q', ...filters].map((name) => [name, '']));

function Filters({ filter, shown }: FiltersProps) {
  const subjects = filters.filter((name) => name !== 'type' && filter[name] !== '');
  return (
    <div class="search row">
      <input
        key={`text ${filter.text}`}
        type="search"
        aria-label="Search these events"
        placeholder="Person, id or reason"
        defaultValue={filter.text}
        onChange={({ currentTarget }) => setQuery({ q: currentTarget.value.trim() })}
      />
      <input
        key={`type ${filter.type}`}
        type="search"
        aria-label="Type of event"
        placeholder="Type, e.g. key.revoked"
        defaultValue={filter.type}
        onChange={({ currentTarget }) => setQuery({ type: currentTarget.value.trim() })}
      />
      {subjects.map((name) => (
        <Button
          key={name}
          look="quiet"
          aria-label={`Remove the filter ${name} ${filter[name]}`}
          onClick={() => setQuery({ [name]: '' })}
        >
          {name} {filter[name]} ✕
        </Button>
      ))}
      <span class="muted" role="status">
        {plural(shown, 'event')}
      </span>
    </div>
  );
}

function EventList({ events }: { readonly events: readonly ListedEvent[] }) {
  const [open, setOpen] = useState<string | undefined>();
  if (events.length === 0)
    return (
      <Empty title="No events match">
        <Button onClick={() => setQuery(clearedFilters)}>Clear filters</Button>
      </Empty>
    );
  return (
    <ol class="events" aria-label="Events">
      {events.map((event) => {
        const key = `${event.position}.${event.index}`;
        const isOpen = open === key;
        return (
          <li key={key}>
            <div class="event-line">
              <button
                type="button"
                class="event-position"
                aria-expanded={isOpen}
                title="Show what it changed"
                onClick={() => setOpen(isOpen ? undefined : key)}
              >
                {count(event.position)} <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
              </button>
              <span>
                <EventSentence event={event} />
                {event.why === undefined ? null : <span class="muted">: {event.why}</span>}
              </span>
              <span class="event-time muted small">
                {event.via === undefined ? null : <Badge>{event.via}</Badge>}
                <time dateTime={event.at} title={moment(event.at)}>
                  {ago(event.at)}
                </time>
              </span>
            </div>
            {isOpen ? <EventDetail event={event} /> : null}
          </li>
        );
      })}
    </ol>
  );
}

/** Builds the Explain question that an event suggests, from the caller and the target in the event's data. */
function explainQueryFromEvent(data: unknown): ExplainQuery {
  const fields = (typeof data === 'object' && data !== null ? data : {}) as Record<string, unknown>;
  const text = (name: string): string | undefined => {
    const value = fields[name];
    return typeof value === 'string' ? value : undefined;
  };
  return { org: text('organisation'), model: text('model'), host: text('stack') };
}

/** Shows the data of an event, and the rows that the event's commit changed. */
function EventDetail({ event }: { readonly event: ListedEvent }) {
  const { type, v, at, command, data, position: seq } = event;
  const found = useRead('commit.get', { position: seq }).data;
  return (
    <div class="event-detail stack">
      {found ? (
        <ul class="rows changes" aria-label="What it changed">
          {found.changes.map(({ table, id, action, fields }) => (
            <li key={`${table} ${id}`}>
              <span>
                {action === 'create' ? 'new' : action === 'remove' ? 'removed' : 'changed'}:{' '}
                <RowName table={table} id={id} /> <span class="muted">{table}</span>
              </span>
              {action === 'change' ? <Fields fields={fields} /> : null}
            </li>
          ))}
        </ul>
      ) : null}
      <pre>{JSON.stringify({ type, v, at, command, data }, null, 2)}</pre>
      <p class="row">
        <a class="button" href={withQuery('/fleet', { at: seq })}>
          Show the fleet at this moment
        </a>
        <a class="button" href={explainLink({ ...explainQueryFromEvent(data), at: String(seq) })}>
          Explain at this moment
        </a>
        <Copy text={`headgate undo ${seq}`} label="Copy undo command" icon="terminal" />
      </p>
    </div>
  );
}

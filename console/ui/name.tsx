/** Shows names of things as links to their pages. Someone who may not see such a page gets plain text. */
import type { ComponentChildren } from 'preact';
import type { ListedEvent } from '../../schemas/admin/admin-history.ts';
import { eventSentence } from '../../schemas/events/event-sentences.ts';
import { route, withQuery } from '../lib/api.ts';
import { findNamedThings, type NamedThing, splitAtThings } from '../lib/event-names.ts';
import { count } from '../lib/format.ts';
import { organisationName } from '../lib/organisations.ts';
import { isOperator, me } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';

type Thing = NamedThing | { readonly kind: 'gateway'; readonly id: string };

/** Kinds of things whose pages are only for operators. */
const forOperators: readonly string[] = ['node', 'gateway', 'tier', 'model'];
const folders = {
  organisation: '/orgs',
  stack: '/stacks',
  node: '/nodes',
  gateway: '/gateways',
  tier: '/tiers',
  model: '/models',
} as const;

/** Returns the link to a thing's page at the moment that is shown, or undefined if the signed-in person may not see it. */
function thingLink(thing: Thing): string | undefined {
  const { kind, id } = thing;
  if (!isOperator() && forOperators.includes(kind)) return undefined;
  const at = kind === 'gateway' ? undefined : moment();
  if (kind === 'key') return withQuery('/keys', { q: id, org: 'within' in thing ? thing.within : '', at });
  if (kind === 'member') {
    const isOwn = me.value?.organisations.some(({ id: own }) => own === thing.within);
    if (thing.within === undefined || (!isOperator() && !isOwn)) return undefined;
    return withQuery(route`/orgs/${thing.within}`, { q: id, at });
  }
  return withQuery(`${folders[kind]}${route`/${id}`}`, { at });
}

export interface NameProps {
  readonly of: Thing;
  readonly children?: ComponentChildren;
}

export function Name({ of, children }: NameProps) {
  const name = 'name' in of ? of.name : undefined;
  const known = of.kind === 'organisation' ? (name ?? organisationName(of.id)) : (name ?? of.id);
  const shown = children ?? known;
  const href = thingLink(of);
  if (href === undefined) return <>{shown}</>;
  return (
    <a class="name" href={href} title={known === of.id ? undefined : of.id}>
      {shown}
    </a>
  );
}

export interface NamesProps {
  readonly kind: Exclude<Thing['kind'], 'member'>;
  readonly ids: readonly string[];
  /** Text to show if there are no names. */
  readonly none?: string;
}

/** Maximum number of names to show, because nobody reads more. */
const namesMax = 50;

export function Names({ kind, ids, none = 'none' }: NamesProps) {
  if (ids.length === 0) return <span class="muted">{none}</span>;
  const more = ids.length - namesMax;
  return (
    <span>
      {commaSeparated(ids.slice(0, namesMax), (id) => [id, <Name key={id} of={{ kind, id }} />])}
      {more > 0 ? <span class="muted"> and {count(more)} more</span> : null}
    </span>
  );
}

export function commaSeparated<One>(
  all: readonly One[],
  shown: (one: One) => readonly [key: string, what: ComponentChildren],
): ComponentChildren {
  return all.map(shown).map(([key, what], at) => (
    <span key={key}>
      {at === 0 ? '' : ', '}
      {what}
    </span>
  ));
}

/** Maps each table of the state whose rows have pages to the kind of thing that a row describes. */
const kindOfTable: Readonly<Record<string, Exclude<NamedThing['kind'], 'member'>>> = {
  organisation: 'organisation',
  api_key: 'key',
  stack: 'stack',
  node: 'node',
  tier: 'tier',
  model: 'model',
};

/** Shows the id of a row in the state as a link if the row has a page. */
export function RowName({ table, id }: { readonly table: string; readonly id: string }) {
  const kind = kindOfTable[table];
  if (kind === undefined) return <strong>{id}</strong>;
  return (
    <strong>
      <Name of={{ kind, id }}>{id}</Name>
    </strong>
  );
}

function Parts({ event: { type, data } }: EventSentenceProps) {
  const { verb, subject, rest } = eventSentence(type, data);
  const things = findNamedThings(type, data);
  const [of] = things.filter(({ id, name = id }) => subject === name);
  return (
    <>
      {verb} {of ? <Name of={of} /> : subject}{' '}
      {splitAtThings(rest, things).map((part, at) =>
        typeof part === 'string' ? (
          part
        ) : (
          <Name key={at} of={part}>
            {part.id}
          </Name>
        ),
      )}
    </>
  );
}

export interface EventSentenceProps {
  readonly event: Pick<ListedEvent, 'by' | 'type' | 'data'>;
}

/** Sentence about an event. The author's name (a member, the operator or a process) links to all of the author's actions. */
export function EventSentence({ event }: EventSentenceProps) {
  return (
    <span class="sentence">
      <Author by={event.by} /> <Parts event={event} />
    </span>
  );
}

function Author({ by }: { readonly by: string }) {
  if (!isOperator()) return <strong>{by}</strong>;
  return (
    <a class="author" href={withQuery('/events', { actor: by })}>
      {by}
    </a>
  );
}

/** Page with a live list of completed requests. The explanation of a selected request appears beside the list. */

import { useEffect, useRef, useState } from 'preact/hooks';
import type { RequestRow } from '../../schemas/admin/requests.ts';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import type { RequestOutcome } from '../../schemas/records/verdict.ts';
import { withQuery } from '../lib/api.ts';
import { explainLink } from '../lib/explain.ts';
import { count, isToday, nameSome, plural } from '../lib/format.ts';
import { useOrganisations } from '../lib/organisations.ts';
import {
  type AddressFilter,
  clearedFilters,
  filterInAddress,
  requestOptions,
  requestPattern,
} from '../lib/request-filter.ts';
import { rowsMax, type Rows as ShownRows } from '../lib/request-rows.ts';
import { type RequestFeed, useRequests } from '../lib/requests.ts';
import { location, setQuery } from '../lib/router.ts';
import { isOperator } from '../lib/session.ts';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { PageHeader } from '../ui/page.tsx';
import { Button, Copy, Empty, Failure, Loading, State } from '../ui/parts.tsx';
import { Rows } from '../ui/table.tsx';
import { Explained } from './explained.tsx';
import { requestColumns } from './request-columns.tsx';

export function RequestsPage() {
  // Loads the names of organisations, because the rows show them.
  useOrganisations();
  const filter = filterInAddress();
  const [isPaused, setPaused] = useState(false);
  const [isAtTop, setAtTop] = useState(true);
  const followed = useRequests(filter, !isPaused && isAtTop);
  const open = location.value.query.get('open') ?? undefined;
  const { rows, failure, held, isInterrupted } = followed;
  return (
    <>
      <PageHeader
        title="Requests"
        lead="Finished requests, newest first. Prompts and answers are never stored."
        cli={`headgate requests ${isPaused ? 'list' : 'tail'}${requestOptions(filter)}`}
      >
        <OrganisationChoice />
      </PageHeader>
      <Filters filter={filter} />
      <div class="follow-line row">
        <Button aria-label={isPaused ? 'Follow' : 'Pause'} onClick={() => setPaused(!isPaused)}>
          {isPaused ? '▶ Follow' : '❚❚ Pause'}
        </Button>
        <Following isPaused={isPaused} isAtTop={isAtTop} isInterrupted={isInterrupted} />
        {held > 0 ? (
          <Button look="quiet" onClick={followed.showHeld}>
            Show {plural(held, 'new request')}
          </Button>
        ) : null}
        {rows === undefined ? null : <Shown rows={rows} />}
      </div>
      {failure ? <Failure failure={failure} /> : null}
      {rows === undefined ? null : <Missing followed={followed} />}
      <div class={open === undefined ? 'beside stack' : 'beside stack open'}>
        <div class="beside-list">
          {rows === undefined ? (
            failure ? null : (
              <Loading />
            )
          ) : (
            <List
              followed={followed}
              open={open}
              onTop={setAtTop}
              isFiltered={Object.keys(filter).some((name) => isOperator() || name !== 'organisation')}
            />
          )}
        </div>
        {open === undefined ? null : <Opened key={open} request={open} />}
      </div>
    </>
  );
}

interface FollowingProps {
  readonly isPaused: boolean;
  readonly isAtTop: boolean;
  readonly isInterrupted: boolean;
}

function Following({ isPaused, isAtTop, isInterrupted }: FollowingProps) {
  if (isInterrupted) return <State tone="bad">connection lost, reconnecting</State>;
  if (isPaused) return <State tone="idle">paused</State>;
  if (!isAtTop) return <State tone="idle">paused while you scroll</State>;
  return <State tone="good">following</State>;
}

function Shown({ rows: { items, missed } }: { readonly rows: ShownRows }) {
  return (
    <span class="muted">
      {plural(items.length, 'request')}
      {missed === 0
        ? ''
        : `, and ${count(missed)} more that arrived too fast to show. Use a filter to see them.`}
    </span>
  );
}

/** States which requests are missing, so that nobody assumes the list is complete. */
function Missing({ followed: { rows } }: { readonly followed: RequestFeed }) {
  if (rows === undefined) return null;
  const { silent, hasDropped } = rows;
  const texts = [
    silent.length === 0
      ? ''
      : `Requests are missing from ${nameSome(silent)}: no answer, or nothing is stored there.`,
    hasDropped ? `Only the newest ${count(rowsMax)} are shown; headgate requests list has all of them.` : '',
  ].filter(Boolean);
  if (texts.length === 0) return null;
  return (
    <div class="notice warn" role="status">
      {texts.map((text) => (
        <p key={text}>{text}</p>
      ))}
    </div>
  );
}

function NoRequests({ isFiltered }: { readonly isFiltered: boolean }) {
  const kept = 'Requests appear here when they end. Gateways store them for up to a day.';
  if (isFiltered)
    return (
      <Empty title="No requests match">
        <p>{kept}</p>
        <Button onClick={() => setQuery(clearedFilters)}>Clear filters</Button>
      </Empty>
    );
  return (
    <Empty title="There are no requests yet">
      <p>{kept}</p>
      <p>
        Create a key under <a href="/keys">API keys</a>. The page of a <a href="/stacks">stack</a> shows how
        to call it.
      </p>
    </Empty>
  );
}

interface ListProps {
  readonly isFiltered: boolean;
  readonly followed: RequestFeed;
  readonly open: string | undefined;
  readonly onTop: (isTop: boolean) => void;
}

function List({ followed, open, onTop, isFiltered }: ListProps) {
  const { rows, isReadingEarlier, readEarlier } = followed;
  const items = rows?.items ?? [];
  if (items.length === 0) return <NoRequests isFiltered={isFiltered} />;
  const oldest = items.at(-1);
  const hasDays = oldest !== undefined && !isToday(oldest.at);
  return (
    <div class={hasDays ? 'requests days' : 'requests'}>
      <Rows
        caption="Requests"
        rows={items}
        columns={requestColumns(isOperator())}
        keyOf={({ request }: RequestRow) => request}
        empty={null}
        openKey={open}
        isFinal
        onTop={onTop}
      />
      {rows?.next === undefined ? null : (
        <p class="more">
          <button type="button" class="button" disabled={isReadingEarlier} onClick={readEarlier}>
            Show earlier requests
          </button>
        </p>
      )}
    </div>
  );
}

const verdicts: Readonly<Record<RequestOutcome, string>> = {
  served: 'served',
  refused: 'refused',
  ended: 'ended early',
};
/** Filters that are set by a click on a value in a row. */
const chips = ['key', 'node', 'gateway', 'request'] as const;
const ages = ['15m', '1h', '6h', '24h'];

function Filters({ filter }: { readonly filter: AddressFilter }) {
  const search = (text: string): void => {
    const [request] = requestPattern.exec(text) ?? [];
    if (request !== undefined) setQuery({ ...clearedFilters, request, open: request });
  };
  const { since = '' } = filter;
  return (
    <div class="search filters row">
      <input
        key={`request ${filter.request ?? ''}`}
        type="search"
        class="request-id"
        aria-label="Find a request"
        placeholder="Request id (req_…)"
        spellcheck={false}
        onInput={({ currentTarget }) => search(currentTarget.value)}
      />
      <Select
        label="Outcome"
        name="outcome"
        value={filter.outcome}
        options={Object.entries(verdicts)}
        any="Any outcome"
      />
      <Select
        label="Type of refusal"
        name="type"
        value={filter.type}
        options={Object.keys(refusalKinds).map((type) => [type, type])}
        any="Any type"
      />
      <Text label="Model" name="model" value={filter.model} placeholder="Model" />
      <Text
        label="Slower than, e.g. 2s"
        name="slower-than"
        value={filter['slower-than']}
        placeholder="Slower than"
      />
      <Select
        label="Since"
        name="since"
        value={since}
        options={[...new Set([...ages, ...(since === '' ? [] : [since])])].map((age) => [age, `Last ${age}`])}
        any="Any time"
      />
      {chips.map((name) =>
        filter[name] === undefined ? null : (
          <Button
            key={name}
            look="quiet"
            aria-label={`Remove the filter ${name} ${filter[name]}`}
            onClick={() => setQuery({ [name]: '' })}
          >
            <span class="chip">
              {name} {filter[name]}
            </span>{' '}
            ✕
          </Button>
        ),
      )}
    </div>
  );
}

interface TextProps {
  readonly label: string;
  readonly name: string;
  readonly value: string | undefined;
  readonly placeholder: string;
}

function Text({ label, name, value = '', placeholder }: TextProps) {
  return (
    <input
      key={value}
      type="search"
      class="short"
      aria-label={label}
      title={label}
      placeholder={placeholder}
      defaultValue={value}
      onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value.trim() })}
    />
  );
}

interface SelectProps {
  readonly label: string;
  readonly name: string;
  readonly value: string | undefined;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly any: string;
}

function Select({ label, name, value = '', options, any }: SelectProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value })}
    >
      <option value="">{any}</option>
      {options.map(([one, text]) => (
        <option key={one} value={one}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** Shows the explanation of the selected request. On narrow screens, it appears above the list. */
function Opened({ request }: { readonly request: string }) {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => head.current?.focus(), []);
  const { path, query } = location.value;
  const rest = withQuery(path, { ...Object.fromEntries(query), open: undefined });
  return (
    <section class="card opened" aria-label="Explanation">
      <div class="card-head ends">
        <h2 ref={head} tabIndex={-1}>
          Why
        </h2>
        <span class="row">
          <a class="button quiet" href={explainLink({ request })}>
            Explain
          </a>
          <a class="button quiet" href={rest} aria-label="Close the explanation">
            ✕
          </a>
        </span>
      </div>
      <p class="id">
        <code>{request}</code>
        <Copy text={request} label="Copy the request id" isIcon />
      </p>
      <Explained asked={{ request }} />
    </section>
  );
}

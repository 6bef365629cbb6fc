/** When the log changed: a dot for each stretch of time with commits, a scale, and what is at the dot that one points at. */
import { useMemo, useState } from 'preact/hooks';
import type { AnswerOf } from '../../schemas/admin.ts';
import { eventText } from '../../schemas/event-sentences.ts';
import { withQuery } from '../lib/api.ts';
import { clock, count, plural } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { location } from '../lib/router.ts';

type Timeline = AnswerOf<'timeline.get'>;
type Bucket = Timeline['buckets'][number];
/** One with commits. */
type Stretch = Bucket & { readonly first: number; readonly last: number };

/** So few that a finger can touch one dot and not the next. */
const stretches = window.matchMedia('(max-width: 640px)').matches ? 20 : 48;

/** Colours, by the first part of the type of a commit's first event. */
const groups = [
  ['keys', 'keys', ['key']],
  [
    'tenants',
    'organisations, members and plans',
    ['organisation', 'member', 'tier', 'anonymous', 'bounds', 'usage'],
  ],
  ['capacity', 'models and stacks', ['model', 'pool', 'stack']],
  ['nodes', 'nodes', ['node']],
  ['rest', 'other', []],
] as const;
type Group = (typeof groups)[number][0];

function groupOf(kind: string): Group {
  return groups.find(([, , kinds]) => (kinds as readonly string[]).includes(kind))?.[0] ?? 'rest';
}

/** The group of most of its commits. */
function groupOfMost({ commits }: Bucket): Group {
  const sums = new Map<Group, number>();
  for (const [kind, commit] of Object.entries(commits)) {
    const group = groupOf(kind);
    sums.set(group, (sums.get(group) ?? 0) + commit);
  }
  return [...sums].sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'rest';
}

const total = ({ commits }: Bucket): number => Object.values(commits).reduce((sum, value) => sum + value, 0);

export interface TimeStripProps {
  readonly at: string | undefined;
  readonly head: number;
}

export function TimeStrip({ at, head }: TimeStripProps) {
  const { data } = useRead('timeline.get', { from: '1', buckets: stretches });
  const [shown, setShown] = useState<Stretch | undefined>();
  if (!data || head < 2) return null;
  const found = data.buckets.filter((bucket): bucket is Stretch => bucket.first !== undefined);
  return (
    <div class="strip-of-time">
      <div class="time-line">
        <Dots timeline={data} found={found} onShow={setShown} />
        <Marker timeline={data} found={found} at={at} />
      </div>
      <Scale timeline={data} head={head} />
      <div class="legend">
        <p class={shown ? 'covered' : ''}>
          <Legend timeline={data} found={found} />
        </p>
        {shown ? <StretchText stretch={shown} /> : null}
      </div>
    </div>
  );
}

/** Percent of the whole time. */
function placeOf(ms: number, { from, to }: Timeline): number {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  return Math.min(100, Math.max(0, (100 * (ms - start)) / Math.max(1, end - start)));
}

const middleOf = ({ from, to }: Bucket): number => (Date.parse(from) + Date.parse(to)) / 2;

interface DotsProps {
  readonly timeline: Timeline;
  readonly found: readonly Stretch[];
  readonly onShow: (stretch: Stretch | undefined) => void;
}

/** One of them is reached by the tabulator, the others from there by the arrows. */
function Dots({ timeline, found, onShow }: DotsProps) {
  const { path, query } = location.value;
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined || !(event.target instanceof HTMLElement)) return;
    event.preventDefault();
    const next = step < 0 ? event.target.previousElementSibling : event.target.nextElementSibling;
    if (next instanceof HTMLElement) next.focus();
  };
  const text = query.toString();
  return useMemo(() => {
    const others = Object.fromEntries(new URLSearchParams(text));
    return (
      <div class="dots" role="toolbar" aria-label="Commits over time" onKeyDown={onKeyDown}>
        {found.map((stretch, index) => (
          <a
            key={stretch.from}
            class={`dot ${groupOfMost(stretch)}`}
            href={withQuery(path, { ...others, at: String(stretch.last) })}
            tabIndex={index === found.length - 1 ? 0 : -1}
            aria-label={`${clock(stretch.from)}, ${plural(total(stretch), 'commit')} up to position ${count(stretch.last)}`}
            style={{ left: `${placeOf(middleOf(stretch), timeline)}%` }}
            onFocus={() => onShow(stretch)}
            onBlur={() => onShow(undefined)}
            onMouseEnter={() => onShow(stretch)}
            onMouseLeave={() => onShow(undefined)}
          >
            <span style={{ '--size': `${Math.min(12, 6 + 2 * Math.log2(total(stretch)))}px` }} />
          </a>
        ))}
      </div>
    );
  }, [timeline, path, text]);
}

/** Where the shown moment is. */
function Marker({ timeline, found, at }: Omit<DotsProps, 'onShow'> & { readonly at: string | undefined }) {
  if (at === undefined) return null;
  const seq = /^\d+$/.test(at) ? Number(at) : undefined;
  const stretch = seq === undefined ? undefined : found.findLast(({ first }) => first <= seq);
  const ms = seq === undefined ? Date.parse(at) : stretch && middleOf(stretch);
  if (ms === undefined || Number.isNaN(ms)) return null;
  return <span class="marker" style={{ left: `${placeOf(ms, timeline)}%` }} />;
}

function Scale({ timeline, head }: { readonly timeline: Timeline; readonly head: number }) {
  const [start, end] = [Date.parse(timeline.from), Date.parse(timeline.to)];
  return (
    <div class="scale">
      <span>{clock(timeline.from)}, position 1</span>
      <span class="middle">{clock(new Date((start + end) / 2).toISOString())}</span>
      <span>now, position {count(head)}</span>
    </div>
  );
}

function Legend({ timeline: { historyFrom, historyNext }, found }: Omit<DotsProps, 'onShow'>) {
  const used = new Set(found.map(groupOfMost));
  return (
    <>
      <span class="muted">A dot is a stretch with commits, larger with more:</span>
      {groups
        .filter(([group]) => used.has(group))
        .map(([group, name]) => (
          <span key={group} class={`dot ${group}`}>
            <span /> {name}
          </span>
        ))}
      {historyFrom === undefined ? null : (
        <span title={historyNext}>History begins at position {count(historyFrom)}</span>
      )}
    </>
  );
}

/** What was committed in a stretch: of several the last. */
function StretchText({ stretch }: { readonly stretch: Stretch }) {
  const { from, first, last } = stretch;
  const query = { from: last, to: last, limit: 1 };
  const [event] = useRead('event.list', query, { isFixed: true }).data?.items ?? [];
  return (
    <p>
      <strong>{clock(from)}</strong>
      <span>
        {plural(total(stretch), 'commit')},{' '}
        {first === last ? `position ${count(first)}` : `positions ${count(first)} to ${count(last)}`}
      </span>
      {event ? (
        <span class="last-of">
          {first === last ? '' : 'the last: '}
          {event.by} {eventText(event.type, event.data)}
        </span>
      ) : null}
    </p>
  );
}

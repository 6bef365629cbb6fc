/** Reads data for components. The last response is shown at once, and data are read again after each change of the state. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { type ApiFailure, type CallOptions, callPath, readPath, toFailure } from './api.ts';
import { changes } from './live.ts';
import { minPosition } from './session.ts';
import { atMoment } from './travel.ts';

export interface ReadResult<T> {
  /** Result of the last successful read. It stays available if a later read fails. */
  readonly data: T | undefined;
  readonly failure: ApiFailure | undefined;
  refresh(): void;
}

export interface ReadOptions {
  /** Interval in ms at which to read again, in addition to reads after commits, for data that change without a commit. */
  readonly everyMs?: number;
  /** Set if the response can never change, for example a list up to a given position. */
  readonly isFixed?: boolean;
  /** Set to read the present even if the page shows the past. */
  readonly isOfNow?: boolean;
  /** Set to read all pages of a list and combine them into one result. */
  readonly isWhole?: boolean;
}

/** Responses read since the page was loaded, by path. They never contain secrets, because only writes return secrets. */
const answers = new Map<string, unknown>();
/** Responses that never change. Fewer of them are kept than of others, because browsing the past reads many large ones. */
const pastAnswers = new Map<string, unknown>();
const answersMax = 60;
const pastAnswersMax = 10;
/** Delay in ms during which several commits are combined into one read. */
const settleMs = 250;
const retryMs = 3000;
/** Pause after a read, as a multiple of its duration. Even with constant commits, a tab reads at most a third of the time. */
const restsPerRead = 2;

/** Reads data with an operation of the admin API. Reads nothing if the name is undefined. */
export function useRead<Name extends OperationName>(
  name: Name | undefined,
  ...[input, options]: ReadArguments<Name>
): ReadResult<OperationAnswer<Name>> {
  const asked = options?.isWhole ? { limit: pageRows.max, ...input } : input;
  return usePath(name && readPath(name, (asked ?? {}) as OperationInput<Name>), options);
}

/** Arguments of a read. The input is optional if the operation does not require any. */
type ReadArguments<Name extends OperationName> =
  object extends OperationInput<Name>
    ? [input?: OperationInput<Name>, options?: ReadOptions]
    : [input: OperationInput<Name>, options?: ReadOptions];

/** Reads data from an endpoint of the console itself, outside the admin API. */
export function usePath<T>(wanted: string | undefined, options: ReadOptions = {}): ReadResult<T> {
  const { everyMs, isFixed = false, isOfNow = false, isWhole = false } = options;
  const path = wanted === undefined || isOfNow ? wanted : atMoment(wanted);
  // Responses about the past and fixed responses never change, so they are stored separately.
  const isPast = isFixed || path !== wanted;
  const [, redraw] = useState(0);
  const failure = useRef<ApiFailure | undefined>(undefined);
  const again = useRef<(isBackground: boolean) => void>(() => undefined);
  const change = changes.value;
  const pending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const tookMs = useRef(0);
  // A layout effect starts the read before the next paint, because the page shows nothing until the response arrives.
  useLayoutEffect(() => {
    if (path === undefined) return undefined;
    const ended = new AbortController();
    failure.current = undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    again.current = (isBackground) => {
      clearTimeout(retry);
      const beganMs = performance.now();
      load(path, { isBackground, isPast, isWhole, signal: ended.signal }).then(
        () => {
          if (ended.signal.aborted) return;
          tookMs.current = performance.now() - beganMs;
          failure.current = undefined;
          redraw((count) => count + 1);
        },
        (error: unknown) => {
          if (ended.signal.aborted) return;
          failure.current = toFailure(error);
          redraw((count) => count + 1);
          // Try again if the server did not respond or the requested data are not ready yet.
          if ([0, 503].includes(failure.current.status))
            retry = setTimeout(() => again.current(true), retryMs);
        },
      );
    };
    if (!justAnswered.has(path)) again.current(false);
    const timer =
      everyMs === undefined || isPast ? undefined : setInterval(() => poll(again.current), everyMs);
    return () => {
      ended.abort();
      clearInterval(timer);
      clearTimeout(retry);
    };
  }, [path, everyMs]);
  useEffect(() => {
    // Responses that never change are read again only after a failure.
    if (change === 0 || (isPast && failure.current === undefined)) return;
    // A timer that is already running is kept, so that pages are refreshed even if there are constant commits.
    pending.current ??= setTimeout(
      () => {
        pending.current = undefined;
        again.current(true);
      },
      Math.max(settleMs, restsPerRead * tookMs.current),
    );
  }, [change]);
  useEffect(() => () => clearTimeout(pending.current), []);
  const known = isPast ? pastAnswers : answers;
  const data = path === undefined ? undefined : (known.get(path) as T | undefined);
  return { data, failure: failure.current, refresh: () => again.current(false) };
}

function poll(read: (isBackground: boolean) => void): void {
  if (!document.hidden) read(true);
}

interface LoadOptions {
  readonly isBackground: boolean;
  readonly isPast: boolean;
  readonly isWhole: boolean;
  readonly signal: AbortSignal;
}

interface UnderWay {
  readonly answer: Promise<void>;
  /** Value of `changes` when the read began. If it has changed since, a new read is started instead of sharing this one. */
  readonly change: number;
  readers: number;
  abort(): void;
}
/** Reads in progress, by path. Parts of a page that need the same data share one read. */
const underWay = new Map<string, UnderWay>();
function load(path: string, options: LoadOptions): Promise<void> {
  const min = minPosition.value;
  const joined = min === 0 ? path : `${path}${path.includes('?') ? '&' : '?'}min=${min}`;
  const before = underWay.get(joined);
  const read = before?.change === changes.value ? before : begin(path, joined, options);
  read.readers++;
  const leave = (): void => {
    if (--read.readers === 0) read.abort();
  };
  options.signal.addEventListener('abort', leave);
  // The listener must be removed, because a page uses the same signal for as long as it is open.
  return read.answer.finally(() => options.signal.removeEventListener('abort', leave));
}

function begin(path: string, joined: string, options: LoadOptions): UnderWay {
  const { isBackground, isPast, isWhole } = options;
  const ended = new AbortController();
  const end = (): void => {
    if (underWay.get(joined) === read) underWay.delete(joined);
  };
  const asked = { isBackground, signal: ended.signal };
  const answer = (isWhole ? wholeList(joined, asked) : callPath('GET', joined, asked))
    .then((found) => keep(isPast ? pastAnswers : answers, isPast ? pastAnswersMax : answersMax, path, found))
    .finally(end);
  const abort = (): void => {
    end();
    ended.abort();
  };
  const read: UnderWay = { answer, change: changes.value, readers: 0, abort };
  underWay.set(joined, read);
  return read;
}

interface ListAnswer {
  readonly items: readonly unknown[];
  readonly next?: string;
}

async function wholeList(path: string, options: CallOptions): Promise<ListAnswer> {
  let page = await callPath<ListAnswer>('GET', path, options);
  const items = [...page.items];
  while (page.next !== undefined) {
    page = await callPath<ListAnswer>('GET', `${path}&after=${encodeURIComponent(page.next)}`, options);
    items.push(...page.items);
  }
  return { ...page, items };
}

function keep(known: Map<string, unknown>, max: number, path: string, answer: unknown): void {
  known.delete(path);
  known.set(path, answer);
  const [oldest] = known.keys();
  if (known.size > max && oldest !== undefined) known.delete(oldest);
}

/** Paths of the responses that were delivered with the page. Until the page is drawn, reads of these paths are skipped. */
const justAnswered = new Set<string>();

/** Draws the page with the responses that were delivered with it. */
export function drawWithAnswers(found: Readonly<Record<string, unknown>>, draw: () => void): void {
  for (const [path, answer] of Object.entries(found)) {
    answers.set(path, answer);
    justAnswered.add(path);
  }
  draw();
  justAnswered.clear();
}

/** Clears all responses, because one user's data must never be shown to the next user. */
export function forgetAnswers(): void {
  answers.clear();
  pastAnswers.clear();
}

/** Reads for components: shown at once from the last answer, read again with each change of the state. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { AnswerOf, InputOf } from '../../schemas/admin/admin.ts';
import type { OperationName } from '../../schemas/admin/admin-routes.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { type ApiFailure, type CallOptions, callPath, failureOf, readPath } from './api.ts';
import { changes } from './live.ts';
import { minPosition } from './session.ts';
import { atMoment } from './travel.ts';

export interface ReadOf<T> {
  /** The last answer; kept while a later read fails. */
  readonly data: T | undefined;
  readonly failure: ApiFailure | undefined;
  /** Reads again now. */
  refresh(): void;
}

export interface ReadOptions {
  /** Also reads again after this time; for what changes without a commit. */
  readonly everyMs?: number;
  /** The answer never changes: a list up to a position. */
  readonly isFixed?: boolean;
  /** Of now, also where the page shows the past. */
  readonly isOfNow?: boolean;
  /** All pages of a list, one after the other, as one answer. */
  readonly isWhole?: boolean;
}

/** Answers of this page load, by path. Values that are shown once are answers to writes, and never here. */
const answers = new Map<string, unknown>();
/** Those that never change apart: a dragged time bar asks for many, each as large as its page. */
const pastAnswers = new Map<string, unknown>();
const answersMax = 60;
const pastAnswersMax = 10;
/** Several commits in a row cause one read. */
const settleMs = 250;
const retryMs = 3000;
/** Where the log never pauses, a tab reads for a third of the time at most. */
const restsPerRead = 2;

/** An operation of the admin API that only reads; none where it is undefined. */
export function useRead<Name extends OperationName>(
  name: Name | undefined,
  ...[input, options]: ReadArguments<Name>
): ReadOf<AnswerOf<Name>> {
  const asked = options?.isWhole ? { limit: pageRows.max, ...input } : input;
  return usePath(name && readPath(name, (asked ?? {}) as InputOf<Name>), options);
}

/** Its input may be left out where the operation needs none. */
type ReadArguments<Name extends OperationName> =
  object extends InputOf<Name>
    ? [input?: InputOf<Name>, options?: ReadOptions]
    : [input: InputOf<Name>, options?: ReadOptions];

/** What is the console's own, and no operation of the admin API. */
export function usePath<T>(wanted: string | undefined, options: ReadOptions = {}): ReadOf<T> {
  const { everyMs, isFixed = false, isOfNow = false, isWhole = false } = options;
  const path = wanted === undefined || isOfNow ? wanted : atMoment(wanted);
  // Neither the past nor what is fixed changes; and a page that follows the log asks for many lists, each read once.
  const isPast = isFixed || path !== wanted;
  const [, redraw] = useState(0);
  const failure = useRef<ApiFailure | undefined>(undefined);
  const again = useRef<(isBackground: boolean) => void>(() => undefined);
  const change = changes.value;
  const pending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const tookMs = useRef(0);
  // Not after the next paint, as another effect: nobody sees anything before the answer is there.
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
          failure.current = failureOf(error);
          redraw((count) => count + 1);
          // Nobody is there, or what was asked for is still being made.
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
    // What never changes is read again only where it could not be read.
    if (change === 0 || (isPast && failure.current === undefined)) return;
    // A timer that runs is kept, so that pages are read again while commits never pause.
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
  /** `changes` when it began: what is read after a change shares nothing with what was asked before it. */
  readonly change: number;
  readers: number;
  abort(): void;
}
/** By path: parts of a page that need the same share one read. */
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
  // A page reads with one signal for as long as it is open.
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

/** Those that came with the page, until it is drawn: what reads them first does not ask again. */
const justAnswered = new Set<string>();

/** Draws with answers that are here already. */
export function drawWith(found: Readonly<Record<string, unknown>>, draw: () => void): void {
  for (const [path, answer] of Object.entries(found)) {
    answers.set(path, answer);
    justAnswered.add(path);
  }
  draw();
  justAnswered.clear();
}

/** Nothing of one person may be shown to the next. */
export function forgetAnswers(): void {
  answers.clear();
  pastAnswers.clear();
}

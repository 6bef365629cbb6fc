/** Reads for components: shown at once from the last answer, read again with each change of the state. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiFailure, call } from './api.ts';
import { changes } from './live.ts';
import { minPosition } from './session.ts';
import { atMoment } from './travel.ts';

interface Read<T> {
  /** The last answer; kept while a later read fails. */
  readonly data: T | undefined;
  readonly failure: ApiFailure | undefined;
  /** Reads again now. */
  refresh(): void;
}

export interface ReadOptions {
  /** Also reads again after this time; for what changes without a commit. */
  readonly everyMs?: number;
}

/** Answers of this page load, by path. Values that are shown once are answers to writes, and never here. */
const answers = new Map<string, unknown>();
/** Those of the past apart: a dragged time bar asks for many, each as large as its page. */
const pastAnswers = new Map<string, unknown>();
const answersMax = 60;
const pastAnswersMax = 10;
/** Several commits in a row cause one read. */
const settleMs = 250;
/** Where the log never pauses, a tab reads for a third of the time at most. */
const restsPerRead = 2;

export function useRead<T>(wanted: string | undefined, { everyMs }: ReadOptions = {}): Read<T> {
  const path = wanted === undefined ? undefined : atMoment(wanted);
  // The past does not change.
  const isPast = path !== wanted;
  const [, redraw] = useState(0);
  const failure = useRef<ApiFailure | undefined>(undefined);
  const again = useRef<(isBackground: boolean) => void>(() => undefined);
  const change = changes.value;
  const pending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const tookMs = useRef(0);
  useEffect(() => {
    if (path === undefined) return undefined;
    const ended = new AbortController();
    failure.current = undefined;
    again.current = (isBackground) => {
      const beganMs = performance.now();
      load(path, { isBackground, isPast, signal: ended.signal }).then(
        () => {
          tookMs.current = performance.now() - beganMs;
          failure.current = undefined;
          redraw((count) => count + 1);
        },
        (error: unknown) => {
          if (ended.signal.aborted) return;
          failure.current = error instanceof ApiFailure ? error : new ApiFailure(0, 'Failed', String(error));
          redraw((count) => count + 1);
        },
      );
    };
    again.current(false);
    const timer =
      everyMs === undefined || isPast ? undefined : setInterval(() => poll(again.current), everyMs);
    return () => {
      ended.abort();
      clearInterval(timer);
    };
  }, [path, everyMs]);
  useEffect(() => {
    if (change === 0 || isPast) return;
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
  readonly signal: AbortSignal;
}

async function load(path: string, { isBackground, isPast, signal }: LoadOptions): Promise<void> {
  const min = minPosition.value;
  const joined = min === 0 ? path : `${path}${path.includes('?') ? '&' : '?'}min=${min}`;
  const answer = await call('GET', joined, { isBackground, signal });
  const known = isPast ? pastAnswers : answers;
  known.delete(path);
  known.set(path, answer);
  const [oldest] = known.keys();
  if (known.size > (isPast ? pastAnswersMax : answersMax) && oldest !== undefined) known.delete(oldest);
}

/** Nothing of one person may be shown to the next. */
export function forgetAnswers(): void {
  answers.clear();
  pastAnswers.clear();
}

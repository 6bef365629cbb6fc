/** Requests as they end: the newest at once, then each, and earlier ones where they are asked for. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { InputOf } from '../../schemas/admin/admin.ts';
import type { RequestsMessage } from '../../schemas/admin/requests.ts';
import { type ApiFailure, call, failureOf, withQuery } from './api.ts';
import { documentOf } from './documents.ts';
import type { AddressFilter } from './request-filter.ts';
import { arrivedSince, type Rows, withArrived, withOlder } from './request-rows.ts';

const firstRows = 200;
/** More than anybody reads, and no more than a browser draws in passing. */
const rowsPerSecond = 100;
const earlierRows = 1000;
const openAgainMs = 3000;

export interface Followed {
  readonly rows: Rows | undefined;
  /** Rows that have arrived and are not shown yet. */
  readonly held: number;
  readonly failure: ApiFailure | undefined;
  readonly isInterrupted: boolean;
  readonly isReadingEarlier: boolean;
  showHeld(): void;
  readEarlier(): void;
}

/** What arrives while the page does not follow is kept apart, so that nothing moves below a hand. */
export function useRequests(filter: AddressFilter, isFollowing: boolean): Followed {
  const list = JSON.stringify(filter);
  const [, redraw] = useState(0);
  const state = useRef<Shown>(nothing(list));
  if (state.current.list !== list) state.current = nothing(list);
  const follows = useRef(isFollowing);
  follows.current = isFollowing;
  const draw = (): void => redraw((count) => count + 1);
  const frame = useRef<number | undefined>(undefined);
  /** Messages of one frame are drawn together. */
  const drawSoon = (): void => {
    frame.current ??= requestAnimationFrame(() => {
      frame.current = undefined;
      draw();
    });
  };
  const showHeld = (): void => {
    const { current } = state;
    if (current.held === undefined) return;
    current.rows = current.held;
    current.held = undefined;
    draw();
  };
  useEffect(() => {
    if (isFollowing) showHeld();
  }, [isFollowing]);
  useEffect(() => {
    const { current } = state;
    return follow(filter, {
      arrived: (message, isFirst) => {
        const isShown = follows.current || current.rows === undefined;
        const joined = withArrived(current.held ?? current.rows, message, isFirst);
        if (isShown) {
          current.rows = joined;
          current.held = undefined;
        } else current.held = joined;
        current.isInterrupted = false;
        current.failure = undefined;
        drawSoon();
      },
      interrupted: (failure) => {
        current.isInterrupted = true;
        current.failure = failure;
        draw();
      },
    });
  }, [list]);
  const readEarlier = (): void => {
    const { current } = state;
    const next = current.rows?.next;
    if (next === undefined || current.isReadingEarlier) return;
    current.isReadingEarlier = true;
    draw();
    call('request.list', { ...asked(filter), limit: earlierRows, next })
      .then(
        (older) => {
          current.rows = current.rows && withOlder(current.rows, older);
          current.held = current.held && withOlder(current.held, older);
        },
        (error: unknown) => {
          current.failure = failureOf(error);
        },
      )
      .finally(() => {
        current.isReadingEarlier = false;
        draw();
      });
  };
  const { rows, held, failure, isInterrupted, isReadingEarlier } = state.current;
  return {
    ...{ rows, held: arrivedSince(rows, held), failure, isInterrupted, isReadingEarlier },
    ...{ showHeld, readEarlier },
  };
}

interface Shown {
  readonly list: string;
  rows: Rows | undefined;
  /** The rows with those that are not shown yet. */
  held: Rows | undefined;
  failure: ApiFailure | undefined;
  isInterrupted: boolean;
  isReadingEarlier: boolean;
}

function nothing(list: string): Shown {
  return {
    ...{ list, rows: undefined, held: undefined, failure: undefined },
    ...{ isInterrupted: false, isReadingEarlier: false },
  };
}

interface Listener {
  arrived(message: RequestsMessage, isFirst: boolean): void;
  /** With a failure where it is known. */
  interrupted(failure: ApiFailure | undefined): void;
}

/** Follows while the page is seen: a browser opens six connections to a host, for all of its tabs. Returns how to stop. */
function follow(filter: AddressFilter, { arrived, interrupted }: Listener): () => void {
  let source: EventSource | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;
  const ended = new AbortController();
  const open = (): void => {
    if (document.hidden || source !== undefined || ended.signal.aborted) return;
    let isFirst = true;
    const query = { ...filter, limit: firstRows, 'rows-per-second': rowsPerSecond };
    source = new EventSource(`/api${withQuery('/requests/stream', query)}`);
    source.onopen = () => {
      isFirst = true;
    };
    source.addEventListener('requests', ({ data }: MessageEvent<string>) => {
      const message = documentOf<RequestsMessage>(data);
      if (message !== undefined) arrived(message, isFirst);
      isFirst = false;
    });
    source.addEventListener('ended', close);
    source.onerror = () => {
      if (source?.readyState !== EventSource.CLOSED) return interrupted(undefined);
      close();
      again = setTimeout(open, openAgainMs);
      // A stream does not say why it is refused.
      call('request.list', { ...asked(filter), limit: 1 }, { signal: ended.signal }).then(
        () => interrupted(undefined),
        (error: unknown) => {
          if (!ended.signal.aborted) interrupted(failureOf(error));
        },
      );
      return undefined;
    };
  };
  const close = (): void => {
    clearTimeout(again);
    source?.close();
    source = undefined;
  };
  const onVisibility = (): void => (document.hidden ? close() : open());
  document.addEventListener('visibilitychange', onVisibility);
  open();
  return () => {
    ended.abort();
    document.removeEventListener('visibilitychange', onVisibility);
    close();
  };
}

/** The address may have any text: what is no filter, the control plane refuses. */
function asked(filter: AddressFilter): InputOf<'request.list'> {
  return filter as InputOf<'request.list'>;
}

/**
 * Follows requests as they end. The newest ones are read first, each new one is added, and earlier ones are read on demand.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { OperationInput } from '../../schemas/admin/admin.ts';
import type { RequestsMessage } from '../../schemas/admin/requests.ts';
import { type ApiFailure, call, toFailure, withQuery } from './api.ts';
import { parseDocument } from './documents.ts';
import type { AddressFilter } from './request-filter.ts';
import { arrivedSince, type Rows, withArrived, withOlder } from './request-rows.ts';

const firstRows = 200;
/** Maximum number of rows to add per second. Nobody can read more, and a browser can still draw this many easily. */
const rowsPerSecond = 100;
const earlierRows = 1000;
const openAgainMs = 3000;

export interface RequestFeed {
  readonly rows: Rows | undefined;
  /** Number of rows that have arrived but are not shown yet. */
  readonly held: number;
  readonly failure: ApiFailure | undefined;
  readonly isInterrupted: boolean;
  readonly isReadingEarlier: boolean;
  showHeld(): void;
  readEarlier(): void;
}

/** Follows requests. If `isFollowing` is false, new rows are held back, so that nothing moves under the cursor. */
export function useRequests(filter: AddressFilter, isFollowing: boolean): RequestFeed {
  const list = JSON.stringify(filter);
  const [, redraw] = useState(0);
  const state = useRef<ListState>(nothing(list));
  if (state.current.list !== list) state.current = nothing(list);
  const follows = useRef(isFollowing);
  follows.current = isFollowing;
  const draw = (): void => redraw((count) => count + 1);
  const frame = useRef<number | undefined>(undefined);
  /** Draws all messages that arrive within one frame together. */
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
    call('request.list', { ...toListInput(filter), limit: earlierRows, next })
      .then(
        (older) => {
          current.rows = current.rows && withOlder(current.rows, older);
          current.held = current.held && withOlder(current.held, older);
        },
        (error: unknown) => {
          current.failure = toFailure(error);
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

interface ListState {
  readonly list: string;
  rows: Rows | undefined;
  /** All rows, including rows that are not shown yet. */
  held: Rows | undefined;
  failure: ApiFailure | undefined;
  isInterrupted: boolean;
  isReadingEarlier: boolean;
}

function nothing(list: string): ListState {
  return {
    ...{ list, rows: undefined, held: undefined, failure: undefined },
    ...{ isInterrupted: false, isReadingEarlier: false },
  };
}

interface Listener {
  arrived(message: RequestsMessage, isFirst: boolean): void;
  /** Called when the stream is interrupted, with a failure if the cause is known. */
  interrupted(failure: ApiFailure | undefined): void;
}

/** Follows the stream while the page is visible, because tabs share six connections per host. Returns a stop function. */
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
      const message = parseDocument<RequestsMessage>(data);
      if (message !== undefined) arrived(message, isFirst);
      isFirst = false;
    });
    source.addEventListener('ended', close);
    source.onerror = () => {
      if (source?.readyState !== EventSource.CLOSED) return interrupted(undefined);
      close();
      again = setTimeout(open, openAgainMs);
      // An event stream does not say why it was refused, so send a normal request to find out.
      call('request.list', { ...toListInput(filter), limit: 1 }, { signal: ended.signal }).then(
        () => interrupted(undefined),
        (error: unknown) => {
          if (!ended.signal.aborted) interrupted(toFailure(error));
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

/** Passes the filter on unchecked. The URL may contain any text, but the control plane refuses invalid filters. */
function toListInput(filter: AddressFilter): OperationInput<'request.list'> {
  return filter as OperationInput<'request.list'>;
}

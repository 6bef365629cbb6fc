/**
 * Receives live data. Only one browser tab follows the control plane and shares the events with the others, because a browser
 * opens only six connections per host. On a page without the Web Locks API (plain HTTP on a host name), each tab follows on
 * its own.
 */
import { signal } from '@preact/signals';
import type { ListedEvent } from '../../schemas/admin/admin-history.ts';
import { call } from './api.ts';
import { parseDocument } from './documents.ts';
import { minPosition } from './session.ts';

export type Connection = 'connecting' | 'live' | 'interrupted';

/** Latest log position that the control plane is known to have folded. */
export const position = signal(0);
export const connection = signal<Connection>('connecting');
/** Whether the control plane can reach the log. */
export const logReachable = signal(true);
/** Counter that grows with each change of the state and triggers new reads. */
export const changes = signal(0);

/** Called with the events of new commits, or with undefined if there were more commits than a message can contain. */
type Listener = (events: readonly ListedEvent[] | undefined) => void;
const listeners = new Set<Listener>();

/** Calls the listener with the events of new commits. Returns a function that removes the listener. */
export function onEvents(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

interface Message {
  readonly kind: 'commits' | 'pulse' | 'ended' | 'interrupted';
  readonly position?: number;
  readonly logReachable?: boolean;
  readonly events?: readonly ListedEvent[];
}

function take(message: Message): void {
  if (message.kind === 'ended') {
    checkSession();
    return;
  }
  if (message.kind === 'interrupted') {
    connection.value = 'interrupted';
    return;
  }
  const healed = connection.value === 'interrupted';
  connection.value = 'live';
  if (message.logReachable !== undefined) logReachable.value = message.logReachable;
  const moved = (message.position ?? 0) > position.value;
  if (moved) position.value = message.position ?? 0;
  if (message.events || moved) for (const listener of listeners) listener(message.events);
  if (moved || healed) changes.value++;
}

/** Checks the session after the stream has ended. If the session is no longer valid, the failed call signs the user out. */
function checkSession(): void {
  call('me.get', {}, { isBackground: true }).catch(() => undefined);
}

let stop: (() => void) | undefined;

/** Follows the control plane until `stopLive` is called. A second call has no effect. */
export function startLive(): void {
  if (stop) return;
  const shared = 'BroadcastChannel' in window ? new BroadcastChannel('headgate-live') : undefined;
  const ended = new AbortController();
  let leave: (() => void) | undefined;
  if (shared) shared.onmessage = ({ data }: MessageEvent<Message>) => take(data);
  const lead = (): void => {
    leave = follow((message) => {
      take(message);
      shared?.postMessage(message);
    });
  };
  if (shared && 'locks' in navigator) {
    const held = new Promise<void>((resolve) => ended.signal.addEventListener('abort', () => resolve()));
    const work = (): Promise<void> => {
      lead();
      return held;
    };
    navigator.locks.request('headgate-live', { signal: ended.signal }, work).catch(() => undefined);
  } else lead();
  stop = () => {
    ended.abort();
    leave?.();
    shared?.close();
  };
}

export function stopLive(): void {
  stop?.();
  stop = undefined;
  connection.value = 'connecting';
  minPosition.value = 0;
}

const followAgainMs = 3000;

/** Follows the stream of events. Returns a function that stops it. */
function follow(send: (message: Message) => void): () => void {
  let again: ReturnType<typeof setTimeout> | undefined;
  let source: EventSource;
  const open = (): void => {
    source = new EventSource('/api/stream');
    for (const kind of ['commits', 'pulse', 'ended'] as const)
      source.addEventListener(kind, ({ data }: MessageEvent<string>) =>
        send({ ...parseDocument<object>(data), kind } as Message),
      );
    source.onerror = () => {
      send({ kind: 'interrupted' });
      // The browser is reconnecting. It gives up only after a response that is not a stream, such as a refusal.
      if (source.readyState !== EventSource.CLOSED) return;
      checkSession();
      again = setTimeout(open, followAgainMs);
    };
  };
  open();
  return () => {
    clearTimeout(again);
    source.close();
  };
}

/**
 * What a listener of a gateway is given and gives, whichever HTTP it speaks with, and the refusals that it makes before there is a
 * request to handle, in the one envelope.
 */
import { STATUS_CODES } from 'node:http';
import type { Server } from 'node:net';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Target } from '../../shared/decision/route.ts';
import type { Connections, ListenerName } from '../../shared/runtime/connections.ts';
import { headerBytesMax } from '../../shared/runtime/http-server.ts';
import type { ListenAddress } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Exchange } from './exchange.ts';

/** A refusal that was answered before there was a request to handle: nothing is known of it but what is here. */
export interface EarlyRefusal {
  readonly requestId: string;
  readonly refusal: Refusal;
  readonly target?: Target | undefined;
}

/** Handles one request to its end; never rejects. `fixed` is set on a stack's own port, where the Host header is not read. */
export type Handler = (exchange: Exchange, fixed: Target | undefined) => Promise<void>;

/** Which code speaks HTTP. `own`: data-plane/http1/. `node`: `node:http`, and undici towards nodes. */
export type HttpEngine = 'own' | 'node';

export interface ApiListenerOptions extends ListenAddress {
  readonly handler: Handler;
  /** Called for what the parser refuses, before there is a request to handle. */
  readonly onRefusal: (refused: EarlyRefusal) => void;
  /** The one stack that this port serves. */
  readonly fixed?: Target;
  readonly certificate?: Certificate | undefined;
  readonly connections: Connections;
  /** Connections start at a bounded rate, but for those from such addresses. */
  readonly pace?: {
    readonly isExempt: (address: string | undefined) => boolean;
    readonly refusal: () => Refusal;
  };
  readonly http: HttpEngine;
  /** In place of those of `waits`. */
  readonly timeouts?: Partial<typeof clientTimeouts>;
  readonly name: ListenerName;
  /** Names the flag in the error of a taken port. */
  readonly flag: string;
}

/** A listener before it has its address. */
export interface OpenedListener {
  readonly server: Server;
  /** Stops accepting; idle connections are closed, those with a request close after it. */
  stopAccepting(): void;
  /** Stops accepting, and ends what is left. */
  destroy(): void;
}

export interface Listener extends Pick<OpenedListener, 'stopAccepting' | 'destroy'> {
  readonly url: string;
}

export const clientTimeouts = {
  headersTimeoutMs: waits.clientHead.ms,
  requestTimeoutMs: waits.clientRequest.ms,
  keepAliveTimeoutMs: waits.clientNext.ms,
  stallTimeoutMs: waits.clientReads.ms,
};

export function badRequest(): Refusal {
  return new Refusal('bad http', 'The request is not well-formed HTTP.');
}

export function largeHead(): Refusal {
  return new Refusal('large headers', `The request's headers are larger than ${headerBytesMax} bytes.`);
}

/** A whole answer, after which the connection ends. */
export function rawAnswer({ requestId, refusal }: EarlyRefusal, path = '/'): string {
  const body = JSON.stringify(refusal.envelope(path));
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...(refusal.retryAfterSeconds === undefined
      ? ['x-should-retry: false']
      : [`retry-after: ${refusal.retryAfterSeconds}`]),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

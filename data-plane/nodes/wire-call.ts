/** Interface between a call to a node and the connection that carries the call. */
import type { BodyPieces } from './body-pieces.ts';

/** Reason why a connection was lost. The message never contains text from the node. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
}

export interface WireRequest {
  readonly path: string;
  /** Header fields as alternating names and values, without those that the connection adds itself. */
  readonly headers: string[];
  readonly body: string | BodyPieces;
  /** Whether the connection must close after this request and its response. */
  readonly isLast: boolean;
  /** Whether the request needs a new connection, even if an idle one is available. */
  readonly isFresh: boolean;
}

/** Through this interface, a call controls the connection that carries the call. */
export interface WireController {
  pause(): void;
  resume(): void;
  /** Closes the connection. The call receives nothing more from the connection. */
  abort(): void;
}

export interface WireCall {
  /** Called when the connection is ready. The request is sent when this method returns, unless it aborts the call. */
  onRequestStart(controller: WireController): void;
  /** Called for the head of the response, and for each interim response (1xx) before it. */
  onResponseStart(status: number, contentType: string): void;
  /** Called with a part of the response's body. `chunk` is only valid until the method returns. */
  onResponseData(chunk: Buffer): void;
  onResponseEnd(): void;
  /** Called if a reused connection closes before any byte of the response, so the node may not have got the request. */
  onUnanswered(error: Error): void;
  onResponseError(error: Error): void;
}

/** The interface between a call and its connection to a node. */
import type { BodyPieces } from './body-pieces.ts';

/** The reason for a lost connection. Its message never contains text from the node. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
}

export interface WireRequest {
  readonly path: string;
  /** Alternating names and values, without the connection's own headers but with the length of a body in pieces. */
  readonly headers: string[];
  readonly body: string | BodyPieces;
  /** Whether the connection closes after this request. */
  readonly isLast: boolean;
  /** Whether to open a new connection even if an idle one is available. */
  readonly isFresh: boolean;
}

/** Controls the exchange of one call. */
export interface WireController {
  pause(): void;
  resume(): void;
  /** Closes the connection. The call receives nothing more from it. */
  abort(): void;
}

export interface WireCall {
  /** The connection is ready. The request is sent when this method returns, unless the call was aborted. */
  onRequestStart(controller: WireController): void;
  /** Also called for each interim response (1xx). */
  onResponseStart(status: number, contentType: string): void;
  /** The chunk is only valid during this call. */
  onResponseData(chunk: Buffer): void;
  onResponseEnd(): void;
  /** The node closed a reused connection without sending a byte of the answer, perhaps before the request arrived. */
  onUnanswered(error: Error): void;
  onResponseError(error: Error): void;
}

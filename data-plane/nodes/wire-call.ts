/** What a call and its connection to a node say to each other. */
import type { BodyPieces } from './body-pieces.ts';

/** Why a connection was lost; its message holds nothing that the node wrote. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
}

export interface WireRequest {
  readonly path: string;
  /** Name, value, name, value, without those of the connection; of a body in pieces also its length. */
  readonly headers: string[];
  readonly body: string | BodyPieces;
  /** The connection ends with this request. */
  readonly isLast: boolean;
  /** Opens a new connection even if another one rests. */
  readonly isFresh: boolean;
}

/** The exchange of one call. */
export interface WireController {
  pause(): void;
  resume(): void;
  /** Ends the connection. The call receives no more of it. */
  abort(): void;
}

export interface WireCall {
  /** There is a connection; the request goes out when this returns, unless it was aborted. */
  onRequestStart(controller: WireController): void;
  /** Also for each early answer (1xx). */
  onResponseStart(status: number, contentType: string): void;
  /** The chunk is valid within this call only. */
  onResponseData(chunk: Buffer): void;
  onResponseEnd(): void;
  /** The node closed a reused connection without a byte of the answer; it may have done so before the request arrived. */
  onUnanswered(error: Error): void;
  onResponseError(error: Error): void;
}

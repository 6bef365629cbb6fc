/** What a call asks of the HTTP towards its node, and what it gets: the least that undici and the own connections have in common. */
import type { IncomingHttpHeaders } from 'node:http';

/** Why an own connection was lost; its message holds nothing that the node wrote. */
export class WireFault extends Error {
  override readonly name = 'WireFault';
}

export interface WireRequest {
  readonly method: 'POST';
  readonly path: string;
  /** Name, value, name, value, without those of the connection; of a body in pieces also its length. */
  readonly headers: string[];
  /** Or BodyPieces, which undici takes and its types do not name. */
  readonly body: string;
  /** The connection ends with this request. */
  readonly reset: boolean;
}

/** The exchange of one call. */
export interface WireController {
  pause(): void;
  resume(): void;
  /** Ends the connection. The call receives no more of it. */
  abort(reason: Error): void;
}

export interface WireCall {
  /** There is a connection; the request goes out when this returns, unless it was aborted. */
  onRequestStart(controller: WireController): void;
  /** Also for each early answer (1xx). */
  onResponseStart(controller: WireController, status: number, headers: IncomingHttpHeaders): void;
  /** The chunk is valid within this call only. */
  onResponseData(controller: WireController, chunk: Buffer): void;
  onResponseEnd(): void;
  onResponseError(controller: WireController, error: Error): void;
}

/** The connections to one node. */
export interface Wires {
  /** Connections that are open, and calls that have not ended. */
  readonly stats: { readonly connected: number; readonly size: number };
  dispatch(request: WireRequest, call: WireCall): unknown;
  /** Takes no further call; resolves when the last one has ended. */
  close(): Promise<void>;
  destroy(): Promise<void>;
}

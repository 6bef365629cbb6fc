/**
 * Deadlines of every wait for a peer while a gateway handles a request. No wait may lack one, and the modules that wait take
 * their times from this table. docs/network.md says when each wait starts and what ends it.
 * data-plane/telemetry/waits.test.ts makes a peer stall at each.
 */

export const waits = {
  /** Client: completes a handshake or the head of a request. */
  clientHead: { ms: 30_000 },
  /** Client: sends another request on an open connection. */
  clientNext: { ms: 75_000 },
  /** Client: sends another 80 KiB of a body, or its end. The first such period is not judged. */
  clientBody: { ms: 10_000 },
  /** Client: sends a whole request. */
  clientRequest: { ms: 300_000 },
  /** Client: sends the rest of a refused body. */
  clientRest: { ms: 10_000 },
  /** Client: reads at least a byte of the response. */
  clientReads: { ms: 60_000 },
  /** Client: reads what was delivered of a response that ended early. */
  clientLastBytes: { ms: 2500 },
  /** Organisation: has room for a body in its share of memory. */
  bodyTurn: { ms: 30_000 },
  /** Node: accepts a connection. */
  nodeConnect: { ms: 2000 },
  /** Node: any candidate accepts a connection. */
  nodeSearch: { ms: 6000 },
  /** Node: counts the tokens of a prompt. */
  nodeCount: { ms: 2000 },
  /** Node: accepts the request and sends the first event of a stream. */
  nodeFirstEvent: { ms: 300_000 },
  /** Node: sends the next event. Comments in the stream or tools in the request extend it up to a first event's. */
  nodeNextEvent: { ms: 60_000 },
  /** Node: accepts the request and sends the head of a response without a stream. The body gets the same time again. */
  nodeWhole: { ms: 300_000 },
  /** Node: sends the next piece of a response without a stream. */
  nodeNextBytes: { ms: 60_000 },
  /** Node: sends the body of an error. */
  nodeError: { ms: 10_000 },
  /** Node: ends a body whose response is already complete. */
  nodeRest: { ms: 2000 },
  /** Gateway: gets room in a limit that other requests use. */
  gatewayRoom: { ms: 2000 },
  /** Control plane: sends the head of a snapshot. */
  snapshotHead: { ms: 60_000 },
  /** Control plane: sends the next piece of a snapshot. */
  snapshotPiece: { ms: 30_000 },
  /** Control plane: sends a whole snapshot. */
  snapshotWhole: { ms: 900_000 },
} as const;

export type WaitName = keyof typeof waits;

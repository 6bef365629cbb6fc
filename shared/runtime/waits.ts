/**
 * Time limits for everything that a gateway awaits while it handles a request. Every wait must have a limit.
 * `docs/network.md` explains when each wait starts and ends. `data-plane/telemetry/waits.test.ts` makes a peer stall at each.
 */

export const waits = {
  /** Time for a client to complete a TLS handshake or the head of a request. */
  clientHead: { ms: 30_000 },
  /** Time for a client to send the next request on an open connection. */
  clientNext: { ms: 75_000 },
  /** Time for a client to send another 80 KiB of a body, or the rest of it. The first such period has no limit. */
  clientBody: { ms: 10_000 },
  /** Time for a client to send a whole request. */
  clientRequest: { ms: 300_000 },
  /** Time for a client to send the rest of a body that was refused. */
  clientRest: { ms: 10_000 },
  /** Time for a client to read at least one more byte of the response. */
  clientReads: { ms: 60_000 },
  /** Time for a client to read the delivered part of a response that ended early. */
  clientLastBytes: { ms: 2500 },
  /** Time for an organisation's share of memory to have room for a body. */
  bodyTurn: { ms: 30_000 },
  /** Time for a node to accept a connection. */
  nodeConnect: { ms: 2000 },
  /** Time for one of the candidate nodes to accept a connection. */
  nodeSearch: { ms: 6000 },
  /** Time for a node to count the tokens of a prompt. */
  nodeCount: { ms: 2000 },
  /** Time for a node to accept the request and send the first event of a stream. */
  nodeFirstEvent: { ms: 300_000 },
  /** Time for a node to send the next event. After comments, or if the request has tools, `nodeFirstEvent` applies. */
  nodeNextEvent: { ms: 60_000 },
  /** Time for a node to send the head of a non-streaming response, and then again for its body. */
  nodeWhole: { ms: 300_000 },
  /** Time for a node to send the next piece of a non-streaming response. */
  nodeNextBytes: { ms: 60_000 },
  /** Time for a node to send the body of an error response. */
  nodeError: { ms: 10_000 },
  /** Time for a node to end the body of a response that is already complete. */
  nodeRest: { ms: 2000 },
  /** Time for a request to get room in a limit that other requests have used up. */
  gatewayRoom: { ms: 2000 },
  /** Time for a control plane to send the head of a snapshot. */
  snapshotHead: { ms: 60_000 },
  /** Time for a control plane to send the next piece of a snapshot. */
  snapshotPiece: { ms: 30_000 },
  /** Time for a control plane to send a whole snapshot. */
  snapshotWhole: { ms: 900_000 },
} as const;

export type WaitName = keyof typeof waits;

/**
 * Deadlines of every wait for a peer while a gateway handles a request; no wait may lack one. docs/network.md says when each
 * wait starts and what ends it. data-plane/telemetry/waits.test.ts makes a peer stall at each.
 */

export const waits = {
  /** Time for a client to complete a handshake or the head of a request. */
  clientHead: { ms: 30_000 },
  /** Time for a client to send another request on an open connection. */
  clientNext: { ms: 75_000 },
  /** Time for a client to send another 80 KiB of a body, or its end. The first such period is not judged. */
  clientBody: { ms: 10_000 },
  /** Time for a client to send a whole request. */
  clientRequest: { ms: 300_000 },
  /** Time for a client to send the rest of a refused body. */
  clientRest: { ms: 10_000 },
  /** Time for a client to read at least a byte of the response. */
  clientReads: { ms: 60_000 },
  /** Time for a client to read what was delivered of a response that ended early. */
  clientLastBytes: { ms: 2500 },
  /** Time for an organisation to make room for a body in its share of memory. */
  bodyTurn: { ms: 30_000 },
  /** Time for a node to accept a connection. */
  nodeConnect: { ms: 2000 },
  /** Time for any candidate node to accept a connection. */
  nodeSearch: { ms: 6000 },
  /** Time for a node to count the tokens of a prompt. */
  nodeCount: { ms: 2000 },
  /** Time for a node to accept the request and send the first event of a stream. */
  nodeFirstEvent: { ms: 300_000 },
  /** Time for a node to send the next event; as long as for a first event after comments, or with tools in the request. */
  nodeNextEvent: { ms: 60_000 },
  /** Time for a node to accept the request and send the head of a response without a stream, and again for its body. */
  nodeWhole: { ms: 300_000 },
  /** Time for a node to send the next piece of a response without a stream. */
  nodeNextBytes: { ms: 60_000 },
  /** Time for a node to send the body of an error. */
  nodeError: { ms: 10_000 },
  /** Time for a node to end a body whose response is already complete. */
  nodeRest: { ms: 2000 },
  /** Time for a gateway to get room in a limit that other requests use. */
  gatewayRoom: { ms: 2000 },
  /** Time for a control plane to send the head of a snapshot. */
  snapshotHead: { ms: 60_000 },
  /** Time for a control plane to send the next piece of a snapshot. */
  snapshotPiece: { ms: 30_000 },
  /** Time for a control plane to send a whole snapshot. */
  snapshotWhole: { ms: 900_000 },
} as const;

export type WaitName = keyof typeof waits;

/**
 * Every wait for a peer on the way of a request through a gateway, with its deadline: none may be without one. The modules
 * that wait take their times from here, docs/network.md has the table, with from when each counts and what ends it, and a peer
 * stalls at each in data-plane/telemetry/waits.test.ts.
 */

export const waits = {
  /** Client: a handshake, or the head of a request. */
  clientHead: { ms: 30_000 },
  /** Client: a further request on a connection. */
  clientNext: { ms: 75_000 },
  /** Client: further 80 KiB of a body, or its end, after a first span that is judged by nothing. */
  clientBody: { ms: 10_000 },
  /** Client: a whole request. */
  clientRequest: { ms: 300_000 },
  /** Client: the rest of a body that was refused. */
  clientRest: { ms: 10_000 },
  /** Client: a byte of the answer to be taken. */
  clientReads: { ms: 60_000 },
  /** Client: what was delivered of an answer that ended early to be taken. */
  clientLastBytes: { ms: 2500 },
  /** Organisation: room for a body in the share of its organisation. */
  bodyTurn: { ms: 30_000 },
  /** Node: a connection. */
  nodeConnect: { ms: 2000 },
  /** Node: any candidate to take a connection. */
  nodeSearch: { ms: 6000 },
  /** Node: the count of a prompt. */
  nodeCount: { ms: 2000 },
  /** Node: the request to be taken, and the first event of a stream. */
  nodeFirstEvent: { ms: 300_000 },
  /** Node: a further event. Comments, or tools in the request, prolong this wait up to that for a first event. */
  nodeNextEvent: { ms: 60_000 },
  /** Node: the request to be taken, and the head of an answer without a stream; again for its body. */
  nodeWhole: { ms: 300_000 },
  /** Node: a further piece of an answer without a stream. */
  nodeNextBytes: { ms: 60_000 },
  /** Node: the body of an error. */
  nodeError: { ms: 10_000 },
  /** Node: the end of a body whose answer is complete. */
  nodeRest: { ms: 2000 },
  /** Gateway: room of a limit that others hold. */
  gatewayRoom: { ms: 2000 },
  /** Control plane: the head of a snapshot. */
  snapshotHead: { ms: 60_000 },
  /** Control plane: a further piece of a snapshot. */
  snapshotPiece: { ms: 30_000 },
  /** Control plane: a whole snapshot. */
  snapshotWhole: { ms: 900_000 },
} as const;

export type WaitName = keyof typeof waits;

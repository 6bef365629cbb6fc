/**
 * Every wait for a peer on the way of a request through a gateway, with its deadline: none may be without one. The modules
 * that wait take their times from here, docs/operate.md has the table, and a peer stalls at each in data-plane/server/waits.test.ts.
 */

interface Wait {
  readonly peer: 'client' | 'organisation' | 'node' | 'gateway' | 'control plane';
  /** What the peer owes: "for …". */
  readonly awaited: string;
  /** When the wait begins. */
  readonly from: string;
  readonly ms: number;
  /** What ends it in the peer's stead. */
  readonly end: string;
}

export const waits = {
  clientHead: {
    peer: 'client',
    awaited: 'a handshake, or the head of a request',
    from: 'the connection, or the first byte of a further head',
    ms: 30_000,
    end: '400, the connection is closed',
  },
  clientNext: {
    peer: 'client',
    awaited: 'a further request on a connection',
    from: 'the end of the answer',
    ms: 75_000,
    end: 'the connection is closed',
  },
  clientBody: {
    peer: 'client',
    awaited: 'further 80 KiB of a body, or its end, after a first span that is judged by nothing',
    from: 'the head; each span from the one before',
    ms: 10_000,
    end: '503',
  },
  clientRequest: {
    peer: 'client',
    awaited: 'a whole request',
    from: 'its first byte',
    ms: 300_000,
    end: '400, the connection is closed',
  },
  clientRest: {
    peer: 'client',
    awaited: 'the rest of a body that was refused',
    from: 'the refusal',
    ms: 10_000,
    end: 'the connection is closed',
  },
  clientReads: {
    peer: 'client',
    awaited: 'a byte of the answer to be taken',
    from: 'the last that was',
    ms: 60_000,
    end: 'the connection is closed, and the request to the node',
  },
  clientLastBytes: {
    peer: 'client',
    awaited: 'what was delivered of an answer that ended early to be taken',
    from: 'the last byte that was',
    ms: 2500,
    end: 'the connection is closed',
  },
  bodyTurn: {
    peer: 'organisation',
    awaited: 'room for a body in the share of its organisation',
    from: 'the piece for which there is none',
    ms: 30_000,
    end: '503',
  },
  nodeConnect: {
    peer: 'node',
    awaited: 'a connection',
    from: 'the choice of the node',
    ms: 2000,
    end: 'another candidate',
  },
  nodeSearch: {
    peer: 'node',
    awaited: 'any candidate to take a connection',
    from: 'the first choice',
    ms: 6000,
    end: '503, or 404 on a stack',
  },
  nodeCount: {
    peer: 'node',
    awaited: 'the count of a prompt',
    from: 'the choice of the node',
    ms: 2000,
    end: 'the estimate counts',
  },
  nodeFirstEvent: {
    peer: 'node',
    awaited: 'the request to be taken, and the first event of a stream',
    from: 'the choice of the node',
    ms: 300_000,
    end: '503, or 404 on a stack',
  },
  nodeNextEvent: {
    peer: 'node',
    awaited: 'a further event; comments do not count',
    from: 'the last event',
    ms: 60_000,
    end: 'the answer is cut off',
  },
  nodeWhole: {
    peer: 'node',
    awaited: 'the request to be taken, and the head of an answer without a stream; again for its body',
    from: 'the choice of the node; the head',
    ms: 300_000,
    end: '503, or 404 on a stack',
  },
  nodeNextBytes: {
    peer: 'node',
    awaited: 'a further piece of an answer without a stream',
    from: 'the last piece',
    ms: 60_000,
    end: '503, or 404 on a stack',
  },
  nodeError: {
    peer: 'node',
    awaited: 'the body of an error',
    from: 'its head',
    ms: 10_000,
    end: '503, or 404 on a stack',
  },
  nodeRest: {
    peer: 'node',
    awaited: 'the end of a body whose answer is complete',
    from: 'the answer',
    ms: 2000,
    end: 'the connection is closed',
  },
  gatewayRoom: {
    peer: 'gateway',
    awaited: 'room of a limit that others hold',
    from: 'the request for it',
    ms: 2000,
    end: '429',
  },
  snapshotHead: {
    peer: 'control plane',
    awaited: 'the head of a snapshot',
    from: 'the request for it',
    ms: 60_000,
    end: 'another control plane, then the log',
  },
  snapshotPiece: {
    peer: 'control plane',
    awaited: 'a further piece of a snapshot',
    from: 'the last piece',
    ms: 30_000,
    end: 'another control plane, then the log',
  },
  snapshotWhole: {
    peer: 'control plane',
    awaited: 'a whole snapshot',
    from: 'the request for it',
    ms: 900_000,
    end: 'another control plane, then the log',
  },
} as const satisfies Readonly<Record<string, Wait>>;

export type WaitName = keyof typeof waits;

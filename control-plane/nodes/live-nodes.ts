/**
 * What the agent of a node reported last, on any replica: from its session where the agent is attached here, else from the
 * status report of the node's owner, which is at most two seconds older.
 */
import type { LiveNode } from '../../schemas/node-messages.ts';
import type { StatusBoard } from '../../shared/status/status-board.ts';
import type { AgentSessions } from './agent-sessions.ts';

export class LiveNodes {
  readonly #agents: AgentSessions;
  readonly #board: StatusBoard;

  constructor(agents: AgentSessions, board: StatusBoard) {
    this.#agents = agents;
    this.#board = board;
  }

  /** A node as the state has it, with what is known of it now. */
  with<Node extends { readonly id: string; readonly owner?: string | undefined }>(
    node: Node,
  ): Node & Partial<LiveNode> {
    return { ...node, ...(this.#agents.live(node.id) ?? this.#elsewhere(node)) };
  }

  #elsewhere({
    id,
    owner,
  }: {
    readonly id: string;
    readonly owner?: string | undefined;
  }): LiveNode | undefined {
    const seen = this.#board.controlPlanes().find(({ report }) => report.name === owner);
    const live = seen?.report.nodes?.[id];
    if (!seen || !live) return undefined;
    const age = live.beatSeconds + (performance.now() - seen.seenMs) / 1000;
    return { ...live, beatSeconds: Math.round(age * 1000) / 1000 };
  }
}

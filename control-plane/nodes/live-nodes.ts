/**
 * Finds the last report of a node's agent. It comes from this replica's session with the agent, or from the owning replica's
 * status report, which is at most two seconds older.
 */
import type { LiveNode } from '../../schemas/records/node-messages.ts';
import type { StatusBoard } from '../gateways/status-board.ts';
import type { AgentSessions } from './agent-sessions.ts';
import type { NodeProber } from './node-prober.ts';

interface ReadNode {
  readonly id: string;
  readonly owner?: string | undefined;
  readonly up?: boolean;
  readonly loaded?: string[];
}

export class LiveNodes {
  readonly #agents: AgentSessions;
  readonly #prober: Pick<NodeProber, 'live'>;
  readonly #board: StatusBoard;

  constructor(agents: AgentSessions, prober: Pick<NodeProber, 'live'>, board: StatusBoard) {
    this.#agents = agents;
    this.#prober = prober;
    this.#board = board;
  }

  /** Adds live facts to a node from the state, including loaded models that the log does not list. */
  with<Node extends ReadNode>(node: Node): Node & Partial<LiveNode> {
    const { id, up, loaded } = node;
    const live = this.#agents.live(id) ?? this.#prober.live(id) ?? this.#elsewhere(node);
    const { unlisted, ...shown } = live ?? {};
    const isShown = unlisted !== undefined && up === true && loaded !== undefined;
    return {
      ...{ ...node, ...shown },
      ...(isShown && { loaded: [...new Set([...loaded, ...unlisted])].sort() }),
      ...(up === true && this.#silence(id)),
    };
  }

  /** Returns a reason with the names of gateways whose requests the node does not answer, although it is up. */
  #silence(id: string): { readonly reason?: string } {
    const reports = this.#board.gateways().map(({ report }) => report);
    const names = reports.flatMap(({ name, unanswering }) => (unanswering?.includes(id) ? [name] : []));
    return names.length === 0 ? {} : { reason: `does not answer the requests of ${names.join(', ')}` };
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

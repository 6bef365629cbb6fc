/**
 * Monitors a replica's nodes: probes those without an agent, and serves the agents of the others. Code in
 * `control-plane/nodes` promises that a node has at most one owner, and that no node can fill the log, which contains changes
 * but never heartbeats.
 */
import type { Commit } from '../../schemas/events/commit.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { CredentialSource } from '../../shared/runtime/node-credentials.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StatusPublisher } from '../../shared/status/status-publisher.ts';
import type { CommandWriter } from '../commands/command-writer.ts';
import type { StatusBoard } from '../gateways/status-board.ts';
import { AgentSessions } from './agent-sessions.ts';
import { type NodeIntervals, nodeIntervals } from './intervals.ts';
import { LiveNodes } from './live-nodes.ts';
import { NodeProber } from './node-prober.ts';
import { NodeReporter } from './node-reporter.ts';
import { ReplicaLiveness } from './replica-liveness.ts';

export interface NodeWatchOptions {
  readonly name: string;
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly writer: CommandWriter;
  readonly board: StatusBoard;
  readonly publisher: StatusPublisher;
  readonly credential: CredentialSource;
  readonly logger: Logger;
  readonly intervals?: Partial<NodeIntervals> | undefined;
}

export interface NodeWatch {
  readonly agents: AgentSessions;
  readonly live: LiveNodes;
  onCommits(commits: readonly Commit[]): void;
  stop(): Promise<void>;
}

/** Time in ms without a published status after which a replica counts as cut off. Other replicas may then claim its nodes. */
const cutOffMs = 6000;
/** Types of events that may change the catalog. `concernsAgents` matches those that affect tokens or installed models. */
const concernsCatalog = /^model\./;
const concernsAgents = /^(?:node\.(?!health_changed)|stack\.|pool\.|organisation\.removed)/;

export function startNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { name, snapshot, replicator, writer, board, publisher, logger, credential } = options;
  const intervals = { ...nodeIntervals, ...options.intervals };
  const reporter = new NodeReporter(name, snapshot, writer);
  const liveness = new ReplicaLiveness(name, board);
  const isHalted = (): boolean => replicator.fault !== undefined;
  const withheld = new RateLimitedLine((nodes) =>
    logger.warn({ nodes }, 'nodes reported more than the log accepts from one node; the excess is withheld'),
  );
  const prober = new NodeProber({ reporter, liveness, isHalted, credential, withheld, logger, intervals });
  // If the fold has stopped, heartbeats cannot be compared with the log, so nothing can be reported.
  const canReport = (): boolean => publisher.acknowledgedWithin(cutOffMs) && !isHalted();
  const agents = new AgentSessions({
    ...{ reporter, liveness, snapshot, canReport, credential, intervals, withheld, logger },
  });
  prober.start();
  agents.start();
  return {
    agents,
    live: new LiveNodes(agents, prober, board),
    onCommits: (commits) => {
      if (commits.some(({ events }) => events.some(({ type }) => concernsCatalog.test(type))))
        reporter.catalogMoved();
      if (commits.some(({ events }) => events.some(({ type }) => concernsAgents.test(type))))
        agents.stateMoved();
    },
    stop: async () => {
      await Promise.all([prober.stop(), agents.stop()]);
      withheld.close();
    },
  };
}

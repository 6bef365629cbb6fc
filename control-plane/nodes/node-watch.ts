/**
 * All that a replica does for nodes, put together: probing the bare ones, listening to the agents of the others, and one
 * way for both into the log.
 */
import type { Commit } from '../../schemas/commit.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { CredentialSource } from '../../shared/runtime/node-credentials.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StatusBoard } from '../../shared/status/status-board.ts';
import type { StatusPublisher } from '../../shared/status/status-publisher.ts';
import type { CommandWriter } from '../command-log/command-writer.ts';
import { AgentSessions } from './agent-sessions.ts';
import { LiveNodes } from './live-nodes.ts';
import { NodeKeeper } from './node-keeper.ts';
import { NodeReporter } from './node-reporter.ts';
import { Owners } from './replica-liveness.ts';

export interface NodeWatchOptions {
  /** Of this replica. */
  readonly name: string;
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly writer: CommandWriter;
  readonly board: StatusBoard;
  readonly publisher: StatusPublisher;
  readonly credential: CredentialSource;
  readonly logger: Logger;
}

export interface NodeWatch {
  readonly agents: AgentSessions;
  readonly live: LiveNodes;
  onCommits(commits: readonly Commit[]): void;
  stop(): Promise<void>;
}

/** A replica whose own beat was not taken for longer does not reach the log; others may claim its nodes by then. */
const cutOffMs = 6000;
/** What may change who is admitted, or what is installed. */
const concernsAgents = /^(?:node\.(?!health_changed)|stack\.|pool\.|organisation\.removed)/;

export function startNodeWatch(options: NodeWatchOptions): NodeWatch {
  const { name, snapshot, replicator, writer, board, publisher, logger, credential } = options;
  const reporter = new NodeReporter(name, snapshot, writer);
  const owners = new Owners(name, board);
  const isHalted = (): boolean => replicator.fault !== undefined;
  const keeper = new NodeKeeper({ reporter, owners, isHalted, credential, logger });
  // Where the fold stopped for good, no report of an agent could be judged any more.
  const canReport = (): boolean => publisher.heardWithin(cutOffMs) && !isHalted();
  const agents = new AgentSessions({ reporter, owners, snapshot, canReport, logger });
  keeper.start();
  agents.start();
  return {
    agents,
    live: new LiveNodes(agents, board),
    onCommits: (commits) => {
      if (commits.some(({ events }) => events.some(({ type }) => concernsAgents.test(type))))
        agents.stateMoved();
    },
    stop: async () => {
      await Promise.all([keeper.stop(), agents.stop()]);
    },
  };
}

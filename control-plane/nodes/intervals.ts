/** Intervals at which a replica probes its nodes and scans for orphaned nodes, and how long it waits for silent agents. */
import { heartbeatIntervalMs, heartbeatsMissedMax } from '../../schemas/records/node-messages.ts';

export interface NodeIntervals {
  /** Time in ms between two probes of a node without an agent. */
  readonly probeMs: number;
  /** Time in ms between two searches for nodes that this replica should probe. */
  readonly scanMs: number;
  /** Minimum time in seconds that a node must be up after an outage before it is reported up. */
  readonly dampSecondsMin: number;
  /** Silence in ms after which an agent is disconnected. */
  readonly agentSilenceMsMax: number;
}

export const nodeIntervals: NodeIntervals = {
  probeMs: 2000,
  scanMs: 500,
  dampSecondsMin: 5,
  agentSilenceMsMax: heartbeatIntervalMs * heartbeatsMissedMax,
};

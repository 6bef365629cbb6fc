/** At which intervals a replica probes its nodes, and how long it waits for those that are silent. */
import { heartbeatIntervalMs, heartbeatsMissedMax } from '../../schemas/records/node-messages.ts';

export interface NodeIntervals {
  /** Between two probes of a node that has no agent. */
  readonly probeMs: number;
  /** Between two searches for nodes that this replica should probe. */
  readonly scanMs: number;
  /** How long a node that was down must be up again before it is reported up. */
  readonly dampSecondsMin: number;
  /** An agent that sends no heartbeat for so long is disconnected. */
  readonly agentSilenceMsMax: number;
}

export const nodeIntervals: NodeIntervals = {
  probeMs: 2000,
  scanMs: 500,
  dampSecondsMin: 5,
  agentSilenceMsMax: heartbeatIntervalMs * heartbeatsMissedMax,
};

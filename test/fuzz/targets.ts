/** Lists all fuzz targets in the order in which they run. */
import { agentTarget } from './agent-target.ts';
import { callsTarget } from './calls-target.ts';
import type { Target } from './campaign.ts';
import { cliTarget } from './cli-target.ts';
import { httpTarget } from './http-target.ts';
import { http1AnswersTarget, http1Target } from './http1-target.ts';
import { jsonTarget } from './json-target.ts';
import { logTarget } from './log-target.ts';
import { nodeTarget } from './node-target.ts';
import { snapshotTarget } from './snapshot-target.ts';

export const targets: readonly Target[] = [
  httpTarget,
  http1Target,
  http1AnswersTarget,
  jsonTarget,
  callsTarget,
  nodeTarget,
  agentTarget,
  logTarget,
  snapshotTarget,
  cliTarget,
];

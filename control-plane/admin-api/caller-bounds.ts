/** Creates the limits on this replica's callers, which all of its listeners share. */
import type { Logger } from '../../shared/runtime/logger.ts';
import { BodyBudgets } from '../core/body-limits.ts';
import { GatewayTurns } from '../gateways/gateway-turns.ts';
import { LiveRequests } from '../gateways/live-requests.ts';
import { OpenCalls } from '../state/open-calls.ts';
import { AttemptLimit } from './attempt-limit.ts';
import type { AdminContext } from './context.ts';

/** Wrong tokens allowed per minute. The numbers are high, because some programs keep trying a token that was replaced. */
const wrongTokensPerMinute = { perAddress: 120, all: 1000 };

export function callerBounds(
  logger: Logger,
): Pick<AdminContext, 'gatewayTurns' | 'liveRequests' | 'bodies' | 'openCalls' | 'attempts'> {
  return {
    gatewayTurns: new GatewayTurns(),
    liveRequests: new LiveRequests(),
    bodies: new BodyBudgets(),
    openCalls: new OpenCalls(),
    attempts: new AttemptLimit({ ...wrongTokensPerMinute, logger }),
  };
}

/** What bounds each caller of this replica, one of each for all of its listeners. */
import type { Logger } from '../../shared/runtime/logger.ts';
import { BodyBudgets } from '../core/body-limits.ts';
import { LiveRequests } from '../gateways/live-requests.ts';
import { PersonTurns } from '../gateways/person-turns.ts';
import { RequestTurns } from '../gateways/request-turns.ts';
import { OpenCalls } from '../state/open-calls.ts';
import { AttemptLimit } from './attempt-limit.ts';
import type { AdminContext } from './context.ts';

/** Programs call the admin API, and some try on with a token that was replaced. */
const wrongTokensPerMinute = { perAddress: 120, all: 1000 };

export function callerBounds(
  logger: Logger,
): Pick<AdminContext, 'turns' | 'requestTurns' | 'liveRequests' | 'bodies' | 'openCalls' | 'attempts'> {
  return {
    turns: new PersonTurns(),
    requestTurns: new RequestTurns(),
    liveRequests: new LiveRequests(),
    bodies: new BodyBudgets(),
    openCalls: new OpenCalls(),
    attempts: new AttemptLimit({ ...wrongTokensPerMinute, logger }),
  };
}

/** WebSocket route for agents. Checks tokens before the upgrade, and rejects any `Origin`, because only browsers send it. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { nodeConnectPath } from '../../schemas/records/node-messages.ts';
import { CommandError } from '../core/command-error.ts';
import type { AgentAdmission } from '../nodes/agent-connection.ts';
import type { AdminContext } from './context.ts';

type Context = Pick<AdminContext, 'agents' | 'attempts' | 'logger'>;

const obstacles = {
  elsewhere: () =>
    new CommandError('LogUnavailable', 'this replica refuses agents now', { next: 'connect to another one' }),
  'too-often': () =>
    new CommandError('LogUnavailable', 'this agent connects too often', { next: 'wait a few seconds' }),
  'not-by-agent': () =>
    new CommandError('Conflict', 'this node is registered without an agent', {
      next: 'register it with --agent, or with agent: true in the fleet file',
    }),
} as const;

/** Minimum time in ms between two log lines about refused agents, because an attacker could fill the disk with more. */
const refusalLogMs = 1000;

export function registerNodeRoutes(app: FastifyInstance, context: Context): void {
  const admitted = new WeakMap<object, AgentAdmission>();
  const refused = refusalLog(context);
  app.get(
    nodeConnectPath,
    {
      websocket: true,
      config: { access: 'node' },
      onRequest: (request, _reply, done) => {
        const admission = admitAgent(request, context);
        if (admission instanceof CommandError) refused(admission);
        else admitted.set(request, admission);
        done(admission instanceof CommandError ? admission : undefined);
      },
    },
    (socket, request) => {
      const admission = admitted.get(request);
      if (admission) context.agents.attach(socket, admission);
      else socket.terminate();
    },
  );
}

function admitAgent(request: FastifyRequest, { agents, attempts }: Context): AgentAdmission | CommandError {
  if (request.headers.origin !== undefined) return new CommandError('Forbidden', 'Origin is not accepted');
  const token = /^bearer +(\S{1,200})$/i.exec(request.headers.authorization ?? '')?.[1];
  const admission = token === undefined ? undefined : agents.admit(token);
  if (!admission) {
    const wrong = new CommandError('Unauthorized', 'the node token is missing or not valid', {
      next: 'headgate node token create NODE',
    });
    return token === undefined ? wrong : attempts.refuse(request, wrong);
  }
  if (!request.ws) return new CommandError('InvalidCommand', 'only WebSocket connections are served here');
  const obstacle = agents.obstacle(admission);
  return obstacle === undefined ? admission : obstacles[obstacle]();
}

function refusalLog({ logger }: Context): (refusal: CommandError) => void {
  let count = 0;
  let loggedMs = Number.NEGATIVE_INFINITY;
  return ({ type }) => {
    count++;
    if (performance.now() - loggedMs < refusalLogMs) return;
    logger.warn({ type, refusals: count }, 'agents refused');
    loggedMs = performance.now();
    count = 0;
  };
}

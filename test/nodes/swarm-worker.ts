// Many agents in one process, each with a simulated engine that is always healthy. Runs until killed. Takes one argument, the
// path of a JSON file: { controlPlanes, agents: [{ node, token }] }.
import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { NodeAgent } from '../../agent/agent.ts';
import type { Engine } from '../../agent/engine.ts';

interface Plan {
  readonly controlPlanes: readonly string[];
  readonly agents: readonly { readonly node: string; readonly token: string }[];
}

const plan = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as Plan;
const logger = pino({ level: process.env['HEADGATE_LOG_LEVEL'] ?? 'warn' }, pino.destination(2));

function madeUpEngine(): Engine {
  return {
    loader: undefined,
    view: {
      up: true,
      dialect: 'vllm',
      models: ['swarm-model'],
      windows: { 'swarm-model': 8192 },
      imageModels: [],
      rerankModels: [],
      inFlight: 1,
    },
    start: async () => undefined,
    stop: async () => undefined,
  };
}

for (const { node, token } of plan.agents) {
  const { controlPlanes } = plan;
  const agent = new NodeAgent({
    controlPlanes,
    node,
    token,
    engine: madeUpEngine(),
    loadsModels: true,
    logger,
  });
  await agent.start();
}
process.stdout.write('started\n');

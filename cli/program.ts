/** Commands that run processes, in the order in which help lists them. */
import type { CommandModule } from './command-modules.ts';

export const processCommands: readonly CommandModule[] = [
  { names: ['dev'], load: async () => (await import('../tools/dev/dev.ts')).devCommand },
  {
    names: ['control-plane'],
    load: async () => (await import('./processes/control-plane.ts')).controlPlaneCommand,
  },
  { names: ['gateway'], load: async () => (await import('./processes/gateway.ts')).gatewayCommand },
  { names: ['node-agent'], load: async () => (await import('./processes/node-agent.ts')).nodeAgentCommand },
  { names: ['sim-node'], load: async () => (await import('./processes/sim-node.ts')).simNodeCommand },
];

/** `headgate node-agent` runs next to one inference server, reports on it, and loads the models installed for its node. */
import type { Command } from 'commander';
import { requiredSecret } from '../../shared/runtime/secrets.ts';
import { usageError } from '../terminal/errors.ts';
import { addOptions, type OptionValues, option, parseUrl, parseUrls, pickShared } from './options.ts';
import { runProcess } from './run-process.ts';

const agentOptions = {
  controlPlane: option('--control-plane <url>', 'control plane to report to; may be repeated', {
    ...{ parse: parseUrls, isMandatory: true as const },
  }),
  node: option('--node <id>', 'id of the node', { isMandatory: true }),
  engine: option('--engine <url>', 'URL of the inference server', { parse: parseUrl, isMandatory: true }),
  credential: option('--credential <name>', 'name of the credential for the engine'),
  ...pickShared('nodeCredentials'),
  loadModels: option<'all' | 'none'>(
    '--load-models <which>',
    'whether to load the models that are installed for the node',
    { choices: ['all', 'none'], default: 'all' },
  ),
  loraFolder: option('--lora-folder <folder>', 'folder in which vLLM finds LoRA adapters by name'),
  ...pickShared('drainTimeout', 'metricsBind', 'metricsPort', 'tlsCert', 'tlsKey', 'readyFile'),
};
type Options = OptionValues<typeof agentOptions>;

export function nodeAgentCommand(program: Command): void {
  const command = program
    .command('node-agent')
    .description('run the agent of one node, on the machine of its inference server');
  addOptions(command, agentOptions).action(run);
}

async function run(options: Options): Promise<void> {
  const token = requiredSecret(
    'HEADGATE_NODE_TOKEN',
    `the token of this node; headgate node token create ${options.node} --out FILE makes one`,
  );
  const { startAgent } = await import('../../agent/main.ts');
  const { nodeCredentials } = await import('../../shared/runtime/node-credentials.ts');
  const credential =
    options.credential === undefined
      ? undefined
      : nodeCredentials(options.nodeCredentials)(options.credential);
  if (options.credential !== undefined && credential === undefined)
    throw usageError(
      `--credential: there is no credential named ${options.credential}`,
      'put it into the folder of --node-credentials, or into HEADGATE_NODE_CREDENTIAL_<NAME>',
    );
  await runProcess('node-agent', options, async ({ logger, certificate }) => {
    const agent = await startAgent({
      controlPlanes: options.controlPlane,
      node: options.node,
      token,
      engine: options.engine,
      credential,
      loadsModels: options.loadModels === 'all',
      loraFolder: options.loraFolder,
      metricsBind: options.metricsBind,
      metricsPort: options.metricsPort,
      certificate,
      logger,
      drainTimeoutSeconds: options.drainTimeout,
    });
    return {
      ready: { metrics: agent.metrics },
      name: options.node,
      drainSeconds: options.drainTimeout,
      close: () => agent.close(),
    };
  });
}

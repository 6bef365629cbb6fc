/**
 * `headgate node-agent`: runs next to one inference server, reports on it, and loads the models installed for its
 * node.
 */
import type { Command } from 'commander';
import { requiredSecret } from '../../shared/runtime/secrets.ts';
import { usageError } from '../terminal/errors.ts';
import {
  addOptions,
  type MetricsOptions,
  option,
  type ProcessOptions,
  parseUrl,
  parseUrls,
} from './options.ts';
import { runProcess } from './run-process.ts';

interface Options extends ProcessOptions, MetricsOptions {
  readonly controlPlane: readonly string[];
  readonly node: string;
  readonly engine: string;
  readonly credential?: string;
  readonly nodeCredentials?: string;
  readonly loadModels: 'all' | 'none';
  readonly loraFolder?: string;
  readonly drainTimeout: number;
}

export function nodeAgentCommand(program: Command): void {
  const command = program
    .command('node-agent')
    .description('run the agent of one node, next to its inference server');
  addOptions(command, [
    option('--control-plane <url>', 'control plane to report to; may be repeated')
      .argParser(parseUrls)
      .makeOptionMandatory(),
    option('--node <id>', 'id of the node').makeOptionMandatory(),
    option('--engine <url>', 'URL of the inference server').argParser(parseUrl).makeOptionMandatory(),
    option('--credential <name>', 'name of the credential for the engine'),
    'nodeCredentials',
    option('--load-models <which>', 'whether to load the models installed for the node')
      .choices(['all', 'none'])
      .default('all'),
    option('--lora-folder <folder>', 'folder in which vLLM finds adapters by name'),
    'drainTimeout',
    'metricsBind',
    'metricsPort',
    'tlsCert',
    'tlsKey',
    'readyFile',
  ]).action(run);
}

async function run(options: Options): Promise<void> {
  const token = requiredSecret('HEADGATE_NODE_TOKEN');
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

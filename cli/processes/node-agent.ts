/** `headgate node-agent`: stands beside one inference server, reports on it, and loads what its place has installed. */
import { type Command, InvalidArgumentError } from 'commander';
import { requiredSecret } from '../../shared/runtime/secrets.ts';
import {
  certificateOf,
  metricsBindOption,
  option,
  parseList,
  parseSeconds,
  portOption,
  readyFileOption,
  type TlsOptions,
  tlsCertOption,
  tlsKeyOption,
} from './options.ts';

interface Options extends TlsOptions {
  readonly controlPlane: readonly string[];
  readonly node: string;
  readonly engine: string;
  readonly credential?: string;
  readonly nodeCredentials?: string;
  readonly loadModels: 'all' | 'none';
  readonly loraFolder?: string;
  readonly drainTimeout: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly readyFile?: string;
}

export function nodeAgentCommand(program: Command): void {
  program
    .command('node-agent')
    .description('run the agent of one node, beside its inference server')
    .addOption(
      option('--control-plane <url>', 'where to report; may be repeated')
        .argParser(parseList)
        .makeOptionMandatory(),
    )
    .addOption(option('--node <id>', 'the node it reports on').makeOptionMandatory())
    .addOption(option('--engine <url>', 'the inference server').argParser(parseUrl).makeOptionMandatory())
    .addOption(option('--credential <name>', "name of the engine's own credential"))
    .addOption(option('--node-credentials <folder>', 'folder with one file a node credential'))
    .addOption(
      option('--load-models <which>', "load what the node's place has installed")
        .choices(['all', 'none'])
        .default('all'),
    )
    .addOption(option('--lora-folder <folder>', 'where vLLM finds adapters by their names'))
    .addOption(
      option('--drain-timeout <seconds>', 'how long requests may go on at the end')
        .argParser(parseSeconds)
        .default(300),
    )
    .addOption(metricsBindOption())
    .addOption(portOption('--metrics-port <port>', 'port of health and metrics', 9464))
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addOption(readyFileOption())
    .action(run);
}

function parseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
    throw new InvalidArgumentError('must be an http or https URL without credentials');
  return text;
}

async function run(options: Options): Promise<void> {
  const token = requiredSecret('HEADGATE_NODE_TOKEN');
  const { startAgent } = await import('../../agent/main.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createLogger } = await import('../../shared/runtime/logger.ts');
  const { nodeCredentials } = await import('../../shared/runtime/node-credentials.ts');
  const { writeJsonAtomically } = await import('../../shared/runtime/ready-file.ts');
  const { closeOnSignal } = await import('../../shared/runtime/shutdown.ts');
  const { controlPlane, node, engine, metricsBind, metricsPort } = options;
  const credential =
    options.credential === undefined
      ? undefined
      : nodeCredentials(options.nodeCredentials)(options.credential);
  if (options.credential !== undefined && credential === undefined)
    throw new Error(`no credential is found under the name ${options.credential}`);
  const { renewOnHangup } = await import('../../shared/runtime/tls.ts');
  const certificate = certificateOf(options);
  const logger = createLogger('node-agent');
  endOnUncaught(logger);
  const agent = await startAgent({
    ...{ controlPlanes: controlPlane.map(parseUrl), node, token, engine, credential },
    loadsModels: options.loadModels === 'all',
    loraFolder: options.loraFolder,
    ...{ metricsBind, metricsPort, certificate, logger },
    drainTimeoutSeconds: options.drainTimeout,
  });
  closeOnSignal(logger, () => agent.close(), options.drainTimeout);
  renewOnHangup(certificate, logger);
  const { metrics } = agent;
  if (options.readyFile) writeJsonAtomically(options.readyFile, { metrics, pid: process.pid, name: node });
}

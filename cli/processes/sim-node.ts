/** `headgate sim-node`: a deterministic inference server for demo, tests and load. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Command } from 'commander';
import {
  bindOption,
  type ConnectionOptions,
  certificateOf,
  connectionLimitsOf,
  maxConnectionsOption,
  maxPerAddressOption,
  metricsBindOption,
  option,
  parseCount,
  portOption,
  readyFileOption,
  type TlsOptions,
  tlsCertOption,
  tlsKeyOption,
} from './options.ts';

interface Options extends TlsOptions, ConnectionOptions {
  readonly bind: string;
  readonly port: number;
  readonly metricsBind: string;
  readonly metricsPort: number;
  readonly models: string;
  readonly tokensPerSecond: number;
  readonly behaviour?: string;
  readonly dialect: 'vllm' | 'sglang' | 'llamacpp' | 'ollama';
  readonly contextTokens: number;
  readonly readyFile?: string;
}

export function simNodeCommand(program: Command): void {
  program
    .command('sim-node')
    .description('run a simulated inference server')
    .addOption(bindOption())
    .addOption(portOption('--port <port>', 'port to listen on', 9001))
    .addOption(metricsBindOption())
    .addOption(portOption('--metrics-port <port>', 'port of health and metrics; 0 takes a free one', 0))
    .addOption(maxConnectionsOption())
    .addOption(maxPerAddressOption())
    .addOption(option('--models <names>', 'models it serves').default('echo-small'))
    .addOption(
      option('--tokens-per-second <n>', 'pace of a stream; 0 is as fast as it goes')
        .argParser(parseCount)
        .default(200),
    )
    .addOption(option('--behaviour <file>', 'JSON file with faults to show'))
    .addOption(
      option('--dialect <engine>', 'engine whose manners it has')
        .choices(['vllm', 'sglang', 'llamacpp', 'ollama'])
        .default('vllm'),
    )
    .addOption(option('--context-tokens <n>', 'context window').argParser(parseCount).default(131_072))
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .addOption(readyFileOption())
    .action(run);
}

async function run(options: Options): Promise<void> {
  const { startSimNode } = await import('../../dev/simulator/sim-node.ts');
  const { startSimHealth } = await import('../../dev/simulator/health.ts');
  const { parseBehaviour } = await import('../../dev/simulator/behaviour.ts');
  const { Registry } = await import('prom-client');
  const { Connections } = await import('../../shared/runtime/connections.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createLogger } = await import('../../shared/runtime/logger.ts');
  const { writeJsonAtomically } = await import('../../shared/runtime/ready-file.ts');
  const { closeOnSignal } = await import('../../shared/runtime/shutdown.ts');
  const { renewOnHangup } = await import('../../shared/runtime/tls.ts');
  const certificate = certificateOf(options);
  const logger = createLogger('sim-node');
  endOnUncaught(logger);
  const registry = new Registry();
  const connections = new Connections({ registry, logger, limits: connectionLimitsOf(options) });
  const node = await startSimNode({
    bind: options.bind,
    port: options.port,
    models: options.models.split(','),
    tokensPerSecond: options.tokensPerSecond,
    contextTokens: options.contextTokens,
    dialect: options.dialect,
    ...{ certificate, connections },
    ...(options.behaviour !== undefined && {
      behaviour: parseBehaviour(readFileSync(options.behaviour, 'utf8'), dirname(options.behaviour)),
    }),
  });
  const health = await startSimHealth(node, {
    ...{ registry, connections, certificate, host: options.metricsBind, port: options.metricsPort },
  }).catch(async (error: unknown) => {
    await node.close();
    throw error;
  });
  closeOnSignal(logger, async () => {
    await node.close();
    await health.close();
  });
  renewOnHangup(certificate, logger);
  logger.info({ url: node.url, metrics: health.url, models: options.models }, 'simulated node serves');
  if (options.readyFile)
    writeJsonAtomically(options.readyFile, {
      url: node.url,
      api: `${node.url}/v1`,
      metrics: health.url,
      pid: process.pid,
      name: 'sim-node',
    });
}

/** vLLM and SGLang. Each runs a chat server and an embedding server with the same weights, and takes a minute to start. */
import { join } from 'node:path';
import type { Engine } from './engine.ts';
import { serverOf } from './server-process.ts';
import { writeHfModel } from './tiny-hf.ts';
import { tinyModel } from './tiny-model.ts';
import { pairOf } from './two-servers.ts';

const windowTokens = 1024;

interface HfEngine extends Pick<Engine, 'finishesOnSigterm'> {
  readonly dialect: 'vllm' | 'sglang';
  /** Arguments that come before the common ones and name the model. */
  model(folder: string): readonly string[];
  /** Arguments of all servers of this engine. */
  readonly common: readonly string[];
  readonly chat: readonly string[];
  readonly embed: readonly string[];
  /** Pattern that finds the number of running requests in the metrics. Undefined if the engine rarely updates this gauge. */
  readonly running?: RegExp;
}

function hfEngine({ dialect, finishesOnSigterm, model, common, chat, embed, running }: HfEngine): Engine {
  return {
    ...{ dialect, model: 'tiny-chat', embeddingModel: 'tiny-embed', windowTokens, reportsWindow: true },
    ...{ finishesOnSigterm, skips: {} },
    start: async (dir) => {
      const folder = join(dir, 'tiny');
      writeHfModel(folder, tinyModel(), windowTokens);
      const server = (name: string, more: readonly string[]) => {
        const args = [
          ...model(folder),
          '--served-model-name',
          name,
          '--dtype',
          'float32',
          ...common,
          ...more,
        ];
        return serverOf(dialect, { dir, name, args, startTimeoutMs: 400_000 });
      };
      const chats = await server('tiny-chat', chat);
      const busy = async (): Promise<number> => {
        const metrics = await (await fetch(`${chats.url}/metrics`)).text();
        return Number(running?.exec(metrics)?.[1]);
      };
      return pairOf(chats, await server('tiny-embed', embed), running && busy);
    },
  };
}

export const vllm = hfEngine({
  dialect: 'vllm',
  finishesOnSigterm: false,
  model: (folder) => [folder],
  common: ['--enforce-eager', '--max-model-len', String(windowTokens)],
  chat: ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'],
  embed: ['--runner', 'pooling', '--convert', 'embed'],
  running: /^vllm:num_requests_running\{.*\} (\S+)$/m,
});

export const sglang = hfEngine({
  dialect: 'sglang',
  finishesOnSigterm: true,
  model: (folder) => ['--model-path', folder],
  common: [
    ...['--device', 'cpu', '--attention-backend', 'torch_native', '--sampling-backend', 'pytorch'],
    ...['--grammar-backend', 'xgrammar', '--context-length', String(windowTokens)],
    ...['--max-total-tokens', '8192', '--disable-overlap-schedule', '--disable-cuda-graph'],
    '--skip-server-warmup',
  ],
  chat: ['--tool-call-parser', 'qwen25'],
  embed: ['--is-embedding'],
});

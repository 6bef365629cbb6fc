/** llama.cpp: a chat server with two slots and an embedding server, both with the tiny model on one processor core. */
import { join } from 'node:path';
import type { Engine } from './engine.ts';
import { type ServerProcess, serverOf } from './server-process.ts';
import { writeGguf } from './tiny-gguf.ts';
import { tinyModel } from './tiny-model.ts';
import { pairOf } from './two-servers.ts';

/** Context window in tokens. It is so large that no stream ends before a test on a busy machine has looked at it. */
const windowTokens = 65_536;
const slots = 2;

export const llamacpp: Engine = {
  dialect: 'llamacpp',
  model: 'tiny-chat',
  embeddingModel: 'tiny-embed',
  windowTokens,
  reportsWindow: true,
  finishesOnSigterm: false,
  skips: {},
  start: async (dir) => {
    const window = String(windowTokens * slots);
    const chat = await llamaServer(dir, 'tiny-chat', ['-c', window, '-np', String(slots)]);
    const embedding = ['-c', '2048', '-np', '1', '--embeddings', '--pooling', 'mean'];
    const embed = await llamaServer(dir, 'tiny-embed', embedding);
    return pairOf(chat, embed, async () => {
      const answer = await fetch(`${chat.url}/slots`);
      const all = (await answer.json()) as readonly { readonly is_processing: boolean }[];
      return all.filter((slot) => slot.is_processing).length;
    });
  },
};

/** Returns a server with the tiny model that is not started yet. */
export function llamaServer(dir: string, alias: string, args: readonly string[]): Promise<ServerProcess> {
  const model = join(dir, `${alias}.gguf`);
  writeGguf(model, tinyModel(), windowTokens);
  const common = ['-m', model, '--alias', alias, '--threads', '1', '--no-ui', '--metrics'];
  return serverOf('llamacpp', { dir, name: alias, args: [...common, ...args] });
}

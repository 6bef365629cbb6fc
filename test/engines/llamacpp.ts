/** llama.cpp: one server that chats with two slots, one that embeds; both with the tiny model on one processor core. */
import { join } from 'node:path';
import type { Engine } from './engine.ts';
import { freePort, installed, ServerProcess } from './server-process.ts';
import { writeGguf } from './tiny-gguf.ts';
import { tinyModel } from './tiny-model.ts';
import { pairOf } from './two-servers.ts';

/** So many that no stream comes to its end before a busy machine has looked at it. */
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
    const chat = await llamaServer(dir, 'tiny-chat', [
      '-c',
      String(windowTokens * slots),
      '-np',
      String(slots),
    ]);
    const embed = await llamaServer(dir, 'tiny-embed', [
      '-c',
      '2048',
      '-np',
      '1',
      '--embeddings',
      '--pooling',
      'mean',
    ]);
    return pairOf(chat, embed, async () => {
      const answer = await fetch(`${chat.url}/slots`);
      const all = (await answer.json()) as readonly { readonly is_processing: boolean }[];
      return all.filter((slot) => slot.is_processing).length;
    });
  },
};

/** A server of the tiny model, not started yet. */
export async function llamaServer(
  dir: string,
  alias: string,
  args: readonly string[],
): Promise<ServerProcess> {
  const model = join(dir, `${alias}.gguf`);
  writeGguf(model, tinyModel(), windowTokens);
  const port = await freePort();
  const common = ['--host', '127.0.0.1', '--port', String(port), '--threads', '1', '--no-ui', '--metrics'];
  return new ServerProcess({
    ...installed('llamacpp'),
    args: ['-m', model, '--alias', alias, ...common, ...args],
    dir,
    name: alias,
    port,
    readyPath: '/health',
    startTimeoutMs: 60_000,
  });
}

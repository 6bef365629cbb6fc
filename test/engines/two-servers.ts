/** Runs engines that need one server for chats and another of the same kind for embeddings. */
import type { RunningEngine } from './engine.ts';
import type { ServerProcess } from './server-process.ts';

/** Starts the servers one after the other, because starting one already takes most of the machine's capacity. */
export async function pairOf(
  chat: ServerProcess,
  embed: ServerProcess,
  busy: RunningEngine['busy'],
): Promise<RunningEngine> {
  const stop = async (): Promise<void> => {
    await Promise.all([chat.kill(), embed.kill()]);
  };
  try {
    await chat.start();
    await embed.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: chat.url,
    embeddingUrl: embed.url,
    busy,
    kill: () => chat.kill(),
    terminate: () => chat.signal('SIGTERM'),
    ended: () => chat.ended(),
    restart: () => chat.start(),
    stop,
  };
}

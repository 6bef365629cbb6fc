/** Engines that chat and embed by two servers of one kind. */
import type { RunningEngine } from './engine.ts';
import type { ServerProcess } from './server-process.ts';

/** Starts both, one after the other: starting is what takes most of the machine. */
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

/** Code of the history thread, which answers questions about past states. */
import type { MessagePort } from 'node:worker_threads';
import { controlTopic } from '../../schemas/events/commit.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { CommandError } from '../core/command-error.ts';
import { History } from './history.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

/** Answers questions that arrive on the port until it receives the message to stop. */
export function serveHistory(port: MessagePort, { path, logUrl, bytesMax }: ThreadData): void {
  const send = (message: FromThread): void => port.postMessage(message);
  const history = new History({
    path,
    bytesMax,
    openLog: () => openLog(logUrl, { topic: controlTopic }, { mustExist: true }),
    note: (message, because) => send({ note: message, because }),
  });
  const askers = new Map<number, AbortController>();
  const stop = async (): Promise<void> => {
    await history.stop().catch(() => undefined);
    send({ kind: 'closed' });
    port.close();
  };
  port.on('message', (message: ToThread) => {
    if ('stop' in message) return void stop();
    if ('cancel' in message) return askers.get(message.cancel)?.abort();
    const { id, name, args } = message;
    const asker = new AbortController();
    askers.set(id, asker);
    history
      .ask(name, args as [number, never], asker.signal)
      .then(
        (answer: unknown) => send({ id, answer }),
        (error: unknown) => send({ id, error: plain(error) }),
      )
      .finally(() => askers.delete(id));
  });
}

/** Converts an error to plain data, because errors lose their class when they are sent between threads. */
function plain(error: unknown) {
  if (error instanceof CommandError) {
    const { type, message, next } = error;
    return { type, message, next };
  }
  return { type: 'InternalError' as const, message: error instanceof Error ? error.message : String(error) };
}

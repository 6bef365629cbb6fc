/** The thread of the history. */
import { parentPort, workerData } from 'node:worker_threads';
import { controlTopic } from '../../schemas/commit.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { CommandError } from '../core/command-error.ts';
import { History } from './history.ts';
import type { FromThread, ThreadData, ToThread } from './thread-messages.ts';

const { path, logUrl, bytesMax } = workerData as ThreadData;
const send = (message: FromThread): void => parentPort?.postMessage(message);
const history = new History({
  path,
  bytesMax,
  openLog: () => openLog(logUrl, { topic: controlTopic }),
  note: (message, because) => send({ note: message, because }),
});

const askers = new Map<number, AbortController>();

parentPort?.on('message', (message: ToThread) => {
  if ('stop' in message) {
    history.stop().then(
      () => process.exit(0),
      () => process.exit(0),
    );
    return;
  }
  if ('cancel' in message) {
    askers.get(message.cancel)?.abort();
    return;
  }
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

/** An error loses its class on its way. */
function plain(error: unknown) {
  if (error instanceof CommandError) {
    const { type, message, next } = error;
    return { type, message, next };
  }
  return { type: 'InternalError' as const, message: error instanceof Error ? error.message : String(error) };
}

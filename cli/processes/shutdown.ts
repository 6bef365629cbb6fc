/** Graceful shutdown. The first TERM or INT signal closes the process, and the second one makes it exit immediately. */
import type { Logger } from '../../shared/runtime/logger.ts';

/** Additional time in seconds for closing what is still open. */
const graceSeconds = 20;

/** Closes the process on a signal. It exits after `close`, or at the latest after `plannedSeconds` and a grace period. */
export function closeOnSignal(
  log: Logger,
  close: (signal: string) => Promise<void>,
  plannedSeconds = 0,
): void {
  let closing = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) {
      log.warn({ signal }, 'second signal: ending now');
      process.exit(130);
    }
    closing = true;
    log.info({ signal }, 'closing');
    const withinSeconds = plannedSeconds + graceSeconds;
    setTimeout(() => {
      log.error({ withinSeconds }, 'closing took too long: ending now');
      process.exit(1);
    }, withinSeconds * 1000).unref();
    close(signal).then(
      () => process.exit(0),
      (error) => {
        log.error({ err: error }, 'shutdown failed');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** Closes a child process of `headgate dev` when its parent ends or crashes, because this closes the channel between them. */
export function closeWithParent(close: () => void): void {
  if (process.send === undefined) return;
  // If the parent has ended already, close now, because no `disconnect` event would follow.
  if (process.connected) process.on('disconnect', close);
  else close();
  process.channel?.unref();
}

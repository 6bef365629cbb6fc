/** Graceful shutdown: the first TERM or INT closes the process, the second one exits at once. */
import type { Logger } from '../../shared/runtime/logger.ts';

/** Extra time in seconds for closing what is open. */
const graceSeconds = 20;

/** Closes on a signal. `plannedSeconds` is what `close` may take. After that and the grace time, the process exits. */
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

/** Closes a process of `headgate dev` when that parent ends, even by a crash, because their channel then closes. */
export function closeWithParent(close: () => void): void {
  if (process.send === undefined) return;
  // The parent may have ended already.
  if (process.connected) process.on('disconnect', close);
  else close();
  process.channel?.unref();
}

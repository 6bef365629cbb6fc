/** Graceful shutdown: TERM or INT closes once, a second signal exits at once. */
import type { Logger } from '../../shared/runtime/logger.ts';

/** Added to the planned time, to close what is open. */
const graceSeconds = 20;

/** `plannedSeconds`: how long `close` may take by the settings of the process; after that and the grace time the process exits. */
export function closeOnSignal(
  log: Logger,
  close: (signal: string) => Promise<void>,
  plannedSeconds = 0,
): void {
  let closing = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) {
      log.warn({ signal }, 'second signal: ending at once');
      process.exit(130);
    }
    closing = true;
    log.info({ signal }, 'closing');
    const withinSeconds = plannedSeconds + graceSeconds;
    setTimeout(() => {
      log.error({ withinSeconds }, 'not closed in time: ending at once');
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

/** A process started by `headgate dev` ends with it, also after a crash: the channel between them closes. */
export function closeWithParent(close: () => void): void {
  if (process.send === undefined) return;
  // It may have ended before this one listens for it.
  if (process.connected) process.on('disconnect', close);
  else close();
  process.channel?.unref();
}

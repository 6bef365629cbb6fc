/** Ends a process in good order: TERM or INT closes once, a second signal ends at once. */
import type { Logger } from './logger.ts';

/** `close` must be bounded in time by itself. */
export function closeOnSignal(log: Logger, close: (signal: string) => Promise<void>): void {
  let closing = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) {
      log.warn({ signal }, 'second signal: ending at once');
      process.exit(130);
    }
    closing = true;
    log.info({ signal }, 'closing');
    close(signal).then(
      () => process.exit(0),
      (error) => {
        log.error({ err: error }, 'could not close in good order');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}

/** A process started by `headgate dev` ends with it, however that one ends: the channel between them closes. */
export function closeWithParent(close: () => void): void {
  if (!process.channel) return;
  process.on('disconnect', close);
  process.channel.unref();
}

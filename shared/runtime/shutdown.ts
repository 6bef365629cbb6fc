/** Ends a process in good order: TERM or INT closes once, a second signal ends at once. */
import type { Logger } from './logger.ts';

/** Beyond the time that a process takes by its settings, for what it has open to be closed. */
const graceSeconds = 20;

/** `plannedSeconds`: how long `close` may take by the settings of the process; a while later the process ends anyhow. */
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

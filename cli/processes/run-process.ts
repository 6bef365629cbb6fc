/** Starts and stops long-running processes. Modules must be imported only when used, so that other commands start fast. */
import type { Closers } from '../../shared/runtime/closers.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { logLevel } from '../../shared/runtime/settings.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { extraAuthorities, loadCertificate, type ProcessOptions, usingOption } from './options.ts';

export interface ProcessContext {
  readonly logger: Logger;
  readonly certificate: Certificate | undefined;
  /** Closes what has been opened if the start fails. */
  readonly closers: Closers;
}

export interface RunningProcess {
  /** Members of the ready file, in addition to the process id and `name`. */
  readonly ready: Readonly<Record<string, unknown>>;
  readonly name: string;
  /** Time in seconds that `close` may take, according to the process's settings. */
  readonly drainSeconds: number;
  close(): Promise<void>;
}

/** Starts a process, which then runs until a signal stops it. Resolves to the content of its ready file. */
export async function runProcess(
  kind: string,
  options: ProcessOptions,
  start: (context: ProcessContext) => Promise<RunningProcess>,
): Promise<Record<string, unknown>> {
  const { openAll } = await import('../../shared/runtime/closers.ts');
  const { endOnUncaught } = await import('../../shared/runtime/fault.ts');
  const { createLogger } = await import('../../shared/runtime/logger.ts');
  const { writeJsonAtomically } = await import('../../shared/runtime/ready-file.ts');
  const { closeOnSignal } = await import('./shutdown.ts');
  const { keepRenewed } = await import('../../shared/runtime/watched-files.ts');
  const certificate = loadCertificate(options);
  const logger = createLogger(kind, logLevel());
  endOnUncaught(logger);
  const running = await openAll(logger, (closers) => start({ logger, certificate, closers }));
  closeOnSignal(logger, () => running.close(), running.drainSeconds);
  keepRenewed(
    [certificate, extraAuthorities()].filter((each) => each !== undefined),
    logger,
  );
  const ready = { ...running.ready, pid: process.pid, name: running.name };
  const { readyFile: path } = options;
  if (path) usingOption('--ready-file', () => writeJsonAtomically(path, ready));
  return ready;
}

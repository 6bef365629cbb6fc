/**
 * The log of a process: one JSON line an entry on stderr, pretty on a terminal.
 * Keys, prompts and completions are never handed to it; the redaction list is a second wall, not the first.
 */
import { type Logger, pino } from 'pino';
import { LineWriter } from './line-writer.ts';

export type { Logger };

/** All that most parts need of a log. */
export type LineLogger = Readonly<Record<'warn' | 'error' | 'fatal', (fields: object, text: string) => void>>;

const redact = ['*.authorization', '*["x-api-key"]', '*.value', '*.token', 'authorization', 'value', 'token'];

export function createLogger(name: string, level = process.env['HEADGATE_LOG_LEVEL'] ?? 'info'): Logger {
  const options = { name, level, redact, base: { name } };
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: true }));
  const target = {
    target: 'pino-pretty',
    options: { destination: 2, ignore: 'pid,hostname', singleLine: true },
  };
  return pino({ ...options, transport: target });
}

/**
 * The same log for the lines of requests: written within 50 ms by a writer that no request waits for, and without the
 * second wall. Its lines are made of a fixed list of fields, each an id, a name of the catalog, a number or a text of
 * ours (data-plane/server/telemetry.ts), so that there is nothing to redact in them; errors go to the log above.
 */
export function createAccessLog(logger: Logger, name: string): Logger {
  if (process.stderr.isTTY) return logger;
  const onDropped = (lines: number): void => logger.warn({ lines }, 'lines of the access log were dropped');
  return pino({ name, level: logger.level, base: { name } }, new LineWriter({ fd: 2, onDropped }));
}

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

export function createLogger(name: string, level: string): Logger {
  const options = { name, level, redact, base: { name } };
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: true }));
  const target = {
    target: 'pino-pretty',
    options: { destination: 2, ignore: 'pid,hostname', singleLine: true },
  };
  return pino({ ...options, transport: target });
}

/** The log of requests. */
export interface AccessLog {
  isEnabled(): boolean;
  /** One line of level info; fields that are undefined are left out. */
  write(fields: object, text: string): void;
}

/** Requests in the log of the process, written at once. */
export function accessLogIn(logger: Logger): AccessLog {
  return {
    isEnabled: () => logger.isLevelEnabled('info'),
    write: (fields, text) => logger.info(fields, text),
  };
}

/**
 * The same lines as of the log above, written within 50 ms by a writer that no request waits for, and without the second
 * wall. They are made of a fixed list of fields, each an id, a name of the catalog, a number or a text of ours
 * (data-plane/server/telemetry.ts), so that there is nothing to redact in them; errors go to the log above. One call
 * makes a line, because pino's way field by field is a tenth of what a request costs.
 */
export function createAccessLog(logger: Logger, name: string): AccessLog {
  if (process.stderr.isTTY) return accessLogIn(logger);
  const onDropped = (lines: number): void => logger.warn({ lines }, 'lines of the access log were dropped');
  const writer = new LineWriter({ fd: 2, onDropped });
  const level = logger.levels.values['info'];
  return {
    isEnabled: () => logger.isLevelEnabled('info'),
    write: (fields, text) =>
      writer.write(`${JSON.stringify({ level, time: Date.now(), name, ...fields, msg: text })}\n`),
  };
}

/**
 * The log of a process: one JSON line an entry on stderr, pretty on a terminal.
 * Keys, prompts and completions are never handed to it; the redaction list is a second wall, not the first.
 */
import { type Logger, pino } from 'pino';

export type { Logger };

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

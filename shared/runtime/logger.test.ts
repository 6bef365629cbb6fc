import { Writable } from 'node:stream';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createLogger, withEvent } from './logger.ts';

test('a line has the code of its text in addition to its fields', () => {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  const logger = pino({ hooks: { logMethod: withEvent } }, stream);
  logger.info({ signal: 'SIGTERM' }, 'closing');
  logger.child({ part: 'a' }).info('certificate read again');
  logger.warn({ err: new Error('no disk') }, 'checkpoint not written');
  logger.info('of a library');
  expect(lines).toMatchObject([
    { event: 'process.closing', signal: 'SIGTERM', msg: 'closing' },
    { event: 'tls.reloaded', part: 'a', msg: 'certificate read again' },
    { event: 'fold.checkpoint_failed', err: { message: 'no disk' }, msg: 'checkpoint not written' },
    { msg: 'of a library' },
  ]);
  expect(lines[3]).not.toHaveProperty('event');
  expect(createLogger('test', 'silent').isLevelEnabled('fatal')).toBe(false);
});

import { Writable } from 'node:stream';
import { pino } from 'pino';
import { expect, test, vi } from 'vitest';
import { logEvents } from '../../schemas/records/log-events.ts';
import { createLogger, lineHook } from './logger.ts';

function logged() {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  return { logger: pino({ hooks: { logMethod: lineHook() } }, stream), lines };
}

test('a line contains the code of its text in addition to its fields', () => {
  const { logger, lines } = logged();
  logger.info({ signal: 'SIGTERM' }, 'closing');
  logger.child({ part: 'a' }).info('certificate reloaded');
  logger.warn({ err: new Error('no disk') }, 'checkpoint not written');
  logger.info('of a library');
  expect(lines).toMatchObject([
    { event: 'process.closing', signal: 'SIGTERM', msg: 'closing' },
    { event: 'tls.reloaded', part: 'a', msg: 'certificate reloaded' },
    { event: 'fold.checkpoint_failed', err: { message: 'no disk' }, msg: 'checkpoint not written' },
    { msg: 'of a library' },
  ]);
  expect(lines[3]).not.toHaveProperty('event');
  expect(createLogger('test', 'silent').isLevelEnabled('fatal')).toBe(false);
});

test.each(Object.entries(logEvents).map(([event, [, text]]) => [event, text]))(
  'a repeated fault of %s is logged once a minute, with the number of lines left out',
  (event, text) => {
    vi.useFakeTimers();
    try {
      const { logger, lines } = logged();
      for (let second = 0; second < 150; second++) {
        logger.warn({ reason: 'the disk is full' }, text);
        logger.error({ err: new Error('the disk is full') }, text);
        vi.advanceTimersByTime(1_000);
      }
      for (const level of [40, 50]) {
        const found = lines.filter((line) => line['level'] === level);
        expect(found).toMatchObject([{ event }, { event, repeated: 59 }, { event, repeated: 60 }]);
        expect(found[0]).not.toHaveProperty('repeated');
      }
      vi.advanceTimersByTime(60_000);
      expect(lines).toHaveLength(8);
      vi.advanceTimersByTime(600_000);
      expect(lines).toHaveLength(8);
    } finally {
      vi.useRealTimers();
    }
  },
);

test('of two alternating states, the last line shows the current one', () => {
  vi.useFakeTimers();
  try {
    const { logger, lines } = logged();
    for (let second = 0; second < 21; second++) {
      logger.warn({ reachable: second % 2 === 1 }, 'reachability of the control log');
      vi.advanceTimersByTime(1_000);
    }
    vi.advanceTimersByTime(60_000);
    expect(lines.map(({ reachable, repeated }) => [reachable, repeated])).toEqual([
      [false, undefined],
      [true, undefined],
      [true, 9],
      [false, 10],
    ]);
  } finally {
    vi.useRealTimers();
  }
});

test('different faults, information and fatal lines are always written', () => {
  const { logger, lines } = logged();
  for (let node = 0; node < 2000; node++) logger.warn({ node }, 'node not claimed');
  for (let count = 0; count < 3; count++) {
    logger.info({}, 'closing');
    logger.fatal({}, 'the fold has stopped; see docs/recover.md');
    logger.warn({ of: 'a library' }, 'without a code');
  }
  expect(lines).toHaveLength(2000 + 9);
});

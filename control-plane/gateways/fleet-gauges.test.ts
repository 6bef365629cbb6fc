/** Tests how a control plane shows the limits that gateways exchange, on an in-memory log. */
import { expect, test } from 'vitest';
import { encodeGauges, type GaugeRecord, inFlightWindow } from '../../schemas/records/gauges.ts';
import { gaugesTopic } from '../../schemas/records/limits.ts';
import { LogUnavailable } from '../../shared/log/core/control-log.ts';
import { LimitTopic, type LimitTopicOptions } from '../../shared/log/limit-topic.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { until } from '../../test/support/until.ts';
import { FleetGauges } from './fleet-gauges.ts';

const minute = 60_000 * Math.floor(Date.now() / 60_000);
const logger = { fatal: () => undefined };

function record(process: string, n: number, rest: Partial<GaugeRecord>): Buffer {
  return encodeGauges({
    ...{ process, name: `edge-${process[0]}`, n, at: 0, ended: [], silent: [], entries: [] },
    ...rest,
  });
}

function entry(window: number, used: number): GaugeRecord['entries'][number] {
  return { subject: 'acme', window, limit: 30, used, claim: used };
}

function open(memory: MemoryTopic, isAway: () => boolean = () => false) {
  const options: LimitTopicOptions = {
    topic: gaugesTopic,
    open: async () => {
      if (isAway()) throw new LogUnavailable('away');
      return new MemoryLog(memory);
    },
    tokens: ['token-of-sixteen-bytes'],
  };
  let nowMs = 0;
  const gauges = new FleetGauges({ topic: new LimitTopic(options), logger, clock: () => nowMs });
  const writer = new LimitTopic(options);
  return {
    gauges,
    append: (value: Buffer) => writer.append(value),
    pass: (ms: number) => {
      nowMs += ms;
    },
    close: async () => {
      await gauges.stop();
      await writer.close();
    },
  };
}

test('a minute’s requests outlive their gateway, but its concurrency ends with it, announced or silent', async () => {
  const { gauges, append, pass, close } = open(new MemoryTopic());
  gauges.start();
  await append(record('a1', 1, { entries: [entry(minute, 5), entry(inFlightWindow, 3)] }));
  await append(record('b1', 1, { entries: [entry(minute, 7), entry(inFlightWindow, 2)] }));
  // A repeated record must not change anything, and an invalid record must be skipped.
  await append(record('a1', 1, { entries: [entry(minute, 9)] }));
  await append(Buffer.from('{"v":1}'));
  await append(record('d1', 1, { entries: [entry(minute + 86_400_000, 5)] }));
  await append(record('c1', 1, {}));
  // Record d1's entry is about another minute, so it must not change this minute's counts.
  await until(() => gauges.gateways().size === 4);
  expect(gauges.uses('acme', minute)).toEqual([
    { name: 'edge-a', used: 5 },
    { name: 'edge-b', used: 7 },
  ]);
  expect(gauges.uses('acme', inFlightWindow)).toEqual([
    { name: 'edge-a', used: 3 },
    { name: 'edge-b', used: 2 },
  ]);
  expect(gauges.uses('other', minute)).toEqual([]);
  expect(gauges.uses('acme', minute + 86_400_000)).toEqual([]);

  await append(record('a2', 1, { ended: [['a1', Number.MAX_SAFE_INTEGER]] }));
  await until(() => gauges.uses('acme', inFlightWindow)?.length === 1);
  pass(11_000);
  await append(record('a2', 2, {}));
  await until(() => gauges.gateways().get('edge-a') === 0);
  expect(gauges.gateways().get('edge-b')).toBe(11_000);
  pass(2000);
  expect(gauges.uses('acme', inFlightWindow)).toEqual([]);
  expect([...gauges.gateways().keys()]).toEqual(['edge-a']);
  expect(gauges.uses('acme', minute)?.length).toBe(2);
  await close();
});

test('while the topic cannot be read nothing is known, and everything is known again afterwards', async () => {
  let isAway = true;
  const memory = new MemoryTopic();
  const { gauges, append, close } = open(memory, () => isAway);
  gauges.start();
  await until(() => gauges.uses('acme', minute) === undefined);
  isAway = false;
  await append(record('a1', 1, { entries: [entry(minute, 5)] }));
  await until(() => gauges.uses('acme', minute)?.length === 1);
  await close();
});

test.each([
  ['the machine', -40, 0],
  ['the log', 0, 40],
  ['the record', 0, 0, 40],
])(
  'period times follow the gateways’ while only the clock of %s is wrong',
  async (_, own, log, said = log) => {
    const dayMs = 86_400_000;
    const trueMs = Date.now() - own * dayMs;
    const { gauges, append, close } = open(new MemoryTopic(() => trueMs + log * dayMs));
    gauges.start();
    await append(record('a1', 1, { at: trueMs + log * dayMs, leap: said * dayMs }));
    await until(() => gauges.gateways().size === 1);
    expect(Math.abs(gauges.logNow() - trueMs)).toBeLessThan(10_000);
    await close();
  },
);

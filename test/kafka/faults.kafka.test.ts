/**
 * Tests the log when a broker dies, freezes or loses its responses. No acknowledged record may be missing, no command may
 * enter the chain twice, no tail may skip or repeat a record, and an unknown outcome must be reported as unknown.
 */

import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { toStored } from '../../schemas/events/events.ts';
import { composeCommit, emptyHead, type Head, judge } from '../../shared/log/core/chain.ts';
import {
  AppendUnknown,
  type ControlLog,
  type LogRecord,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import { createDial } from '../../shared/log/kafka/client.ts';
import { KafkaCluster } from '../../shared/log/kafka/cluster.ts';
import { KafkaLog, type KafkaLogOptions, openKafkaLog } from '../../shared/log/kafka/kafka-log.ts';
import { promptly, readRecords } from '../contract/control-log.ts';
import { runs, scaledMs } from '../support/budget.ts';
import { until, within } from '../support/until.ts';
import { type Kafka, startKafka } from './broker.ts';
import { startProxy, type TestProxy } from './proxy.ts';

let kafka: Kafka;
let topic: string;
const opened: ControlLog[] = [];
let proxy: TestProxy | undefined;
let topics = 0;
beforeAll(async () => {
  kafka = await startKafka();
});
afterAll(() => kafka?.stop());
beforeEach(() => {
  topic = `faults-${topics++}`;
});
afterEach(async () => {
  for (const log of opened.splice(0)) await log.close();
  await proxy?.close();
  proxy = undefined;
});

async function open(options: Partial<KafkaLogOptions> = {}): Promise<ControlLog> {
  const log = await openKafkaLog(kafka.brokers, {}, { topic, partition: 0, ...options });
  opened.push(log);
  return log;
}

/** Opens the log through a proxy, whatever address the broker advertises. */
async function openThroughProxy(): Promise<{ log: ControlLog; proxy: TestProxy }> {
  const made = await startProxy(kafka.port(1));
  proxy = made;
  const dial = createDial({});
  const address = { host: '127.0.0.1', port: made.port };
  const cluster = new KafkaCluster(
    [address],
    () => dial(address),
    () => undefined,
  );
  const log = new KafkaLog(cluster, { topic, partition: 0 });
  opened.push(log);
  await log.open();
  return { log, proxy: made };
}

/** Reads until the log is closed, and resumes after each LogUnavailable. Any other error ends the reading. */
function follow(log: ControlLog, signal: AbortSignal, onRecord: (record: LogRecord) => void): Promise<void> {
  let from = 0;
  return (async () => {
    while (!signal.aborted) {
      try {
        for await (const batch of log.tail({ from, signal })) {
          for (const record of batch.records) onRecord(record);
          from = batch.nextOffset;
        }
        // A tail ends without an error only if its signal aborts or its log closes.
        return;
      } catch (error) {
        if (!(error instanceof LogUnavailable)) throw error;
      }
    }
  })();
}

/** Writes commands and trusts only its own fold to know which were accepted. */
class Writer {
  readonly #log: ControlLog;
  readonly accepted: string[] = [];
  readonly offsets: number[] = [];
  unknown = 0;
  #head: Head = emptyHead();
  #folded: () => void = () => undefined;

  constructor(log: ControlLog) {
    this.#log = log;
  }

  fold(record: LogRecord): void {
    this.offsets.push(record.offset);
    const judgement = judge(this.#head, record);
    if (!('accepted' in judgement)) return;
    this.#head = judgement.head;
    this.accepted.push(judgement.accepted.id);
    this.#folded();
  }

  /** Appends the same record until the fold contains it. The chain drops duplicates. */
  async submit(id: string): Promise<void> {
    const event =
      this.#head.seq === 0
        ? toStored({ type: 'log.created', data: { log: 'main' } })
        : toStored({ type: 'no_op', data: {} });
    const head = this.#head.seq === 0 ? emptyHead('main') : this.#head;
    const commit = composeCommit({ head, id, at: '2026-11-01T00:00:00.000Z', by: 'test', events: [event] });
    while (this.#head.seq === head.seq) {
      const seen = new Promise<void>((resolve) => {
        this.#folded = resolve;
      });
      try {
        await this.#log.append(commit);
        await seen;
      } catch (error) {
        if (!(error instanceof AppendUnknown || error instanceof LogUnavailable)) throw error;
        if (error instanceof AppendUnknown) this.unknown++;
        // Waits a moment, because the record may still arrive although its outcome is unknown. Its command must then not be
        // repeated.
        await Promise.race([seen, pause(300)]);
      }
    }
  }
}

const brokerKills = runs({ fast: 2, full: 2 });

test(
  `killing a broker ${brokerKills} times loses no acknowledged append, and no command enters the chain twice`,
  async () => {
    const [log, reader] = [await open(), await open()];
    const ending = new AbortController();
    const writer = new Writer(log);
    const seen: string[] = [];
    const following = [
      follow(log, ending.signal, (record) => writer.fold(record)),
      follow(reader, ending.signal, (record) => seen.push(`${record.offset}`)),
    ];
    const submitted: string[] = [];
    let killing = true;
    const submitting = (async () => {
      for (let n = 0; killing || n < 50; n++) {
        await writer.submit(`command-${n}`);
        submitted.push(`command-${n}`);
      }
    })();
    for (let kill = 0; kill < brokerKills; kill++) {
      const before = submitted.length;
      await until(() => submitted.length >= before + 30, 120_000);
      await kafka.kill(1);
      await kafka.restart(1);
    }
    killing = false;
    await submitting;
    const end = await log.end();
    for (const read of [seen, writer.offsets])
      await until(() => Number(read.at(-1) ?? -1) >= end - 1, 60_000);
    ending.abort();
    await Promise.all(following);
    console.log(JSON.stringify({ commands: submitted.length, records: end, unknown: writer.unknown }));
    expect(writer.accepted).toEqual(submitted);
    const offsets = Array.from({ length: end }, (_, offset) => offset);
    expect(writer.offsets).toEqual(offsets);
    expect(seen).toEqual(offsets.map(String));
  },
  scaledMs(100_000 * brokerKills),
);

test('an append whose response is lost has an unknown outcome, and was written once', async () => {
  const { log, proxy } = await openThroughProxy();
  await log.append(Buffer.from('before'));
  proxy.answers('drop');
  await expect(log.append(Buffer.from('unanswered'))).rejects.toThrow(AppendUnknown);
  proxy.answers('pass');
  await log.append(Buffer.from('after'));
  const records = await readRecords(await open(), 3);
  expect(records.map(({ value }) => String(value))).toEqual(['before', 'unanswered', 'after']);
});

test('an append whose connection is cut before the response has an unknown outcome at once', async () => {
  const { log, proxy } = await openThroughProxy();
  await log.append(Buffer.from('before'));
  proxy.answers('hold');
  const sent = proxy.sentBytes();
  const appended = log.append(Buffer.from('cut off'));
  appended.catch(() => undefined);
  await until(() => proxy.sentBytes() > sent);
  proxy.cut();
  await expect(promptly(appended, 'the error')).rejects.toThrow(AppendUnknown);
});

test('a late response still acknowledges its append', async () => {
  const { log, proxy } = await openThroughProxy();
  await log.append(Buffer.from('before'));
  proxy.answers('hold');
  const appended = log.append(Buffer.from('late'));
  await until(() => proxy.heldAnswers() > 0);
  proxy.answers('pass');
  expect(await appended).toBe(1);
});

test('an append that could not be sent is unavailable, not unknown', async () => {
  const { log, proxy } = await openThroughProxy();
  await proxy.close();
  await expect(log.append(Buffer.from('unsent'))).rejects.toThrow(LogUnavailable);
  expect(await (await open()).end()).toBe(0);
});

test('a tail whose connection is cut repeatedly delivers each record once', async () => {
  const { log, proxy } = await openThroughProxy();
  const writer = await open();
  const ending = new AbortController();
  const seen: string[] = [];
  const following = follow(log, ending.signal, (record) => seen.push(String(record.value)));
  const values = Array.from({ length: 200 }, (_, n) => `r${n}`);
  for (const [n, value] of values.entries()) {
    await writer.append(Buffer.from(value));
    if (n % 20 === 10) proxy.cut();
  }
  await until(() => seen.length >= values.length, 60_000);
  ending.abort();
  await following;
  expect(seen).toEqual(values);
});

test('an idle log sets almost no timers', async () => {
  const log = await open();
  const ending = new AbortController();
  let delivered: () => void = () => undefined;
  const delivery = new Promise<void>((resolve) => {
    delivered = resolve;
  });
  const following = follow(log, ending.signal, () => delivered());
  await log.append(Buffer.from('before'));
  await delivery;
  const armed = vi.spyOn(globalThis, 'setTimeout');
  // If the client set a timer again and again, it would show within this second.
  await pause(1000);
  const count = armed.mock.calls.length;
  armed.mockRestore();
  ending.abort();
  await following;
  expect(count).toBeLessThan(20);
});

test('with a frozen broker, reads fail in time and close returns at once', async () => {
  const log = await open({ endTimeoutMs: 500 });
  const ending = new AbortController();
  const following = follow(log, ending.signal, () => undefined);
  await log.append(Buffer.from('before'));
  kafka.freeze(1);
  try {
    await expect(promptly(log.end(), 'the end')).rejects.toThrow(LogUnavailable);
    const appended = log.append(Buffer.from('frozen'));
    appended.catch(() => undefined);
    ending.abort();
    await promptly(log.close(), 'closing');
    await promptly(following, 'the end of the tail');
    await expect(promptly(appended, 'the append')).rejects.toThrow();
  } finally {
    kafka.thaw(1);
  }
});

test('a log opens, reads and closes in time while its broker is down, and works once it returns', async () => {
  const first = await open();
  await first.append(Buffer.from('before'));
  await kafka.kill(1);
  try {
    await promptly(first.close(), 'closing');
    const log = await open({ openTimeoutMs: 300, endTimeoutMs: 300, tailTimeoutMs: 300 });
    await expect(promptly(log.end(), 'the end')).rejects.toThrow(LogUnavailable);
    await expect(promptly(readRecords(log, 1), 'the tail')).rejects.toThrow(LogUnavailable);
    await kafka.restart(1);
    await until(async () => (await log.end().catch(() => 0)) > 0, 60_000);
    expect((await readRecords(log, 1)).map(({ value }) => String(value))).toEqual(['before']);
  } finally {
    if (!(await reachable())) await kafka.restart(1);
  }
});

test('a process that starts without its brokers waits for them once, not once per log', async () => {
  const vacant = createServer().listen(0, '127.0.0.1');
  await once(vacant, 'listening');
  const { port } = vacant.address() as { port: number };
  await new Promise((closed) => vacant.close(closed));
  const openAway = async (name: string) => {
    const log = await openKafkaLog([`127.0.0.1:${port}`], {}, { topic: name, partition: 0 });
    opened.push(log);
    return log;
  };
  await openAway('first');
  // Opening a log normally waits up to ten seconds for brokers that are still starting.
  const second = openAway('second').then((log) => log.end());
  await expect(within(2500, second)).rejects.toThrow(LogUnavailable);
});

async function reachable(): Promise<boolean> {
  const dialled = createDial({})({ host: '127.0.0.1', port: kafka.port(1) });
  return await dialled.then(
    (connection) => {
      connection.destroy();
      return true;
    },
    () => false,
  );
}

/**
 * Tests the embedded log between real processes: killed writers, concurrent writers, a full disk, and the delay until another
 * process sees an append. The child processes run the built files in dist/.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readRecords } from '../../../test/contract/control-log.ts';
import { runs } from '../../../test/support/budget.ts';
import type { ControlLog, LogRecord } from '../core/control-log.ts';
import { openEmbeddedLog } from './embedded-log.ts';

const writerPath = fileURLToPath(new URL('../../../dist/test/contract/embedded-writer.js', import.meta.url));
const stamperPath = fileURLToPath(
  new URL('../../../dist/test/contract/embedded-stamper.js', import.meta.url),
);
const topic = 'headgate.control';

type Child = ChildProcessByStdio<null, Readable, null>;

let folder: string;
let log: ControlLog;
let children: Child[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-log-'));
  log = await openEmbeddedLog({ folder, address: { topic } });
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await log.close();
  rmSync(folder, { recursive: true });
});

interface Writer {
  readonly child: Child;
  readonly lines: AsyncIterable<string>;
  readonly exited: Promise<unknown>;
}

function start(command: string, args: readonly string[]): Writer {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return { child, lines: createInterface({ input: child.stdout }), exited: once(child, 'exit') };
}

function startWriter(name: string, count: number, bytes = 0): Writer {
  return start(process.execPath, [writerPath, folder, topic, name, String(count), String(bytes)]);
}

async function acknowledged(
  { lines }: Writer,
  onLine: (line: string) => void = () => undefined,
): Promise<string[]> {
  const acks: string[] = [];
  for await (const line of lines) {
    const [, n, offset] = /^ack (\d+) (\d+)$/.exec(line) ?? [];
    if (n !== undefined) acks.push(`${n}@${offset}`);
    onLine(line);
  }
  return acks;
}

/** Groups all records as `name → n@offset`. Fails on an incomplete record. */
function sorted(records: readonly LogRecord[], bytes = 0): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { offset, value } of records) {
    const text = value.toString('utf8');
    const [, name, n] = /^([a-z0-9-]+):(\d+)\.*$/.exec(text) ?? [];
    if (name === undefined || value.length < bytes) throw new Error(`record ${offset} is not whole`);
    found.set(name, [...(found.get(name) ?? []), `${n}@${offset}`]);
  }
  return found;
}

test('a writer killed at any moment loses no acknowledged append and leaves none half written', async () => {
  const bytes = 3000;
  const acks = new Map<string, string[]>();
  for (let round = 0; round < runs({ fast: 8, full: 8 }); round++) {
    const name = `w${round}`;
    const writer = startWriter(name, 1_000_000, bytes);
    const killAfter = 1 + ((round * 7) % 23);
    let lines = 0;
    acks.set(
      name,
      await acknowledged(writer, () => {
        if (++lines === killAfter) writer.child.kill('SIGKILL');
      }),
    );
    await writer.exited;
  }
  const end = await log.end();
  const found = sorted(await readRecords(log, end), bytes);
  for (const [name, acked] of acks) {
    const present = found.get(name) ?? [];
    expect(present).toEqual(expect.arrayContaining(acked));
    // Besides the acknowledged appends, at most one may be present: one that was written but not acknowledged yet.
    expect(present.length - acked.length).toBeLessThanOrEqual(1);
    expect(new Set(present.map((entry) => entry.split('@')[0])).size).toBe(present.length);
  }
  expect([...acks.values()].flat().length).toBeGreaterThan(50);
  await log.append(Buffer.from('after:0'));
});

test('four processes that append hundreds of records at once lose and repeat nothing', async () => {
  const names = ['a', 'b', 'c', 'd'];
  const each = runs({ fast: 300, full: 300 });
  const tail = readRecords(log, 4 * each);
  const acks = await Promise.all(names.map((name) => acknowledged(startWriter(name, each))));
  const found = sorted(await tail);
  for (const [index, name] of names.entries()) {
    expect(acks[index]).toHaveLength(each);
    expect(found.get(name)).toEqual(acks[index]);
  }
  expect(await log.end()).toBe(4 * each);
});

test('a full disk is reported, nothing of the failed append remains, and the log still works', async () => {
  await log.append(Buffer.from('before:0'));
  // Limits the size of every file that the process writes, to 400 units of 1 024 bytes.
  const command = 'ulimit -f 400 && exec "$@"';
  const args = [process.execPath, writerPath, folder, topic, 'full', '1000', '20000'];
  const writer = start('bash', ['-c', command, 'bash', ...args]);
  let error = '';
  const acks = await acknowledged(writer, (line) => {
    if (line.startsWith('error')) error = line;
  });
  expect(error).toMatch(/LogUnavailable.*free some disk space/);
  expect(acks.length).toBeGreaterThan(5);
  const end = await log.end();
  const found = sorted(await readRecords(log, end));
  expect(found.get('full')).toEqual(acks);
  expect(await log.append(Buffer.from('after:0'))).toBe(end);
});

test('another process sees an append through file notifications, not the slow poll', async () => {
  const reader = await openEmbeddedLog({ folder, address: { topic }, pollMs: 3_600_000 });
  const count = 200;
  start(process.execPath, [stamperPath, folder, topic, String(count), '10']);
  const latencies: number[] = [];
  for await (const { records } of reader.tail({ from: 0 })) {
    for (const { value } of records)
      latencies.push(Number(process.hrtime.bigint() - BigInt(value.toString())) / 1e6);
    if (latencies.length === count) break;
  }
  await reader.close();
  latencies.sort((a, b) => a - b);
  const at = (share: number) => (latencies[Math.floor(count * share)] as number).toFixed(2);
  console.log(`append → seen in another process, ms: p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}`);
  // The reader must have seen all records in time. With its slow poll alone, it would have seen the last ones too late.
  expect(latencies).toHaveLength(count);
});

test('an idle log uses almost no CPU time', async () => {
  const abort = new AbortController();
  const idle = (async () => {
    for await (const _ of log.tail({ from: 0, signal: abort.signal }));
  })();
  // Waits until the start-up of the process is over, then observes the idle log for some seconds.
  await new Promise((resolve) => setTimeout(resolve, 500));
  const before = process.cpuUsage();
  await new Promise((resolve) => setTimeout(resolve, 3000));
  const { user, system } = process.cpuUsage(before);
  abort.abort();
  await idle;
  const percent = (user + system) / 30_000;
  console.log(`CPU of an idle tail: ${percent.toFixed(2)} % of a core`);
  expect(percent).toBeLessThan(5);
});

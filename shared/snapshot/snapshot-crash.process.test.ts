/**
 * Position and rows change in one transaction: a process killed before any statement of a fold leaves the state of some
 * prefix of the log, and folding on from its position gives what an undisturbed process has. Every statement is tried.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { scaledMs } from '../../test/support/budget.ts';
import { crashHistory, recordsPerApply } from '../../test/support/crash-fold.ts';
import { memorySnapshot, openOrRebuild } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { verify } from './verify.ts';

const program = resolve('dist/test/support/crash-fold.js');
/** Children at one time. */
const lanes = 2;

interface End {
  readonly signal: string | null;
  readonly code: number | null;
  readonly output: string;
}

async function foldAndDie(path: string, n: number): Promise<End> {
  const child = spawn(process.execPath, [program, path, String(n)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const [code, signal] = await once(child, 'close');
  return { signal, code, output };
}

function position(snapshot: Snapshot) {
  const { seq, log, head, nextOffset, headOffset, skipped } = snapshot;
  return { seq, log, head, nextOffset, headOffset, skipped, digests: snapshot.digests() };
}

const records = crashHistory();
/** The state of an undisturbed snapshot after each chunk, by the offset at which it continues. */
const undisturbed = new Map<number, ReturnType<typeof position>>();
const whole = memorySnapshot();
undisturbed.set(0, position(whole));
for (let from = 0; from < records.length; from += recordsPerApply) {
  whole.apply(records.slice(from, from + recordsPerApply));
  undisturbed.set(whole.nextOffset, position(whole));
}

/** Checks what the kill left, and continues to fold. Returns where it continued. */
function recover(path: string, n: number): number {
  const { snapshot, rebuiltBecause } = openOrRebuild(path, 'test-log');
  try {
    const from = snapshot.nextOffset;
    expect(position(snapshot), `left by a kill before statement ${n}`).toEqual(undisturbed.get(from));
    if (rebuiltBecause !== undefined)
      expect([rebuiltBecause, from]).toEqual([`${path} is not a snapshot`, 0]);
    expect(verify(snapshot.db).differing).toEqual([]);
    snapshot.apply(records.slice(from));
    expect(position(snapshot), `folded on after a kill before statement ${n}`).toEqual(position(whole));
    expect(verify(snapshot.db).differing).toEqual([]);
    return from;
  } finally {
    snapshot.close();
  }
}

test('a kill before any statement of a fold loses and repeats nothing', {
  timeout: scaledMs(900_000),
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-crash-'));
  const startedAt = new Map<number, number>();
  let next = 1;
  let statements = Number.POSITIVE_INFINITY;
  const lane = async (): Promise<void> => {
    while (next <= statements) {
      const n = next++;
      const path = join(folder, `${n}.db`);
      const { signal, code, output } = await foldAndDie(path, n);
      if (signal === null) {
        expect(code).toBe(0);
        expect(n).toBeGreaterThan(Number(output));
        statements = Number(output);
      } else expect(signal).toBe('SIGKILL');
      startedAt.set(n, recover(path, n));
      for (const suffix of ['', '-wal', '-shm', '.aside']) rmSync(path + suffix, { force: true });
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    rmSync(folder, { recursive: true });
  }
  console.log(`killed before each of ${statements} statements of ${whole.seq} commits`);
  expect(startedAt.size).toBeGreaterThanOrEqual(statements);
  // Kills met every piece of the history, or there was nothing to lose.
  expect(new Set(startedAt.values())).toEqual(new Set(undisturbed.keys()));
});

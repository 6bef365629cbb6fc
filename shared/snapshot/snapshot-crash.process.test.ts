/**
 * Tests that position and rows change in one transaction. If a process is killed before any statement of a fold, its files
 * must contain the state after some part of the log, and continuing from there must lead to the same state as an undisturbed
 * fold. Many statements (in the nightly run, all) are tried on copies of the files, and some by a real kill.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runs, scaledMs } from '../../test/support/budget.ts';
import { crashHistory, recordsPerApply } from '../../test/support/crash-fold.ts';
import { memorySnapshot, openOrRebuild } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { verify } from './verify.ts';

const program = resolve('dist/test/support/crash-fold.js');
interface End {
  readonly signal: string | null;
  readonly code: number | null;
  readonly output: string;
}

/** Runs the fold program. `what` is the statement before which it is killed, or `copy` and the distance between copies. */
async function fold(path: string, what: string): Promise<End> {
  const child = spawn(process.execPath, [program, path, what], { stdio: ['ignore', 'pipe', 'inherit'] });
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
/** State of an undisturbed snapshot after each chunk, keyed by the offset at which it continues. */
const undisturbed = new Map<number, ReturnType<typeof position>>();
const whole = memorySnapshot();
undisturbed.set(0, position(whole));
for (let from = 0; from < records.length; from += recordsPerApply) {
  whole.apply(records.slice(from, from + recordsPerApply));
  undisturbed.set(whole.nextOffset, position(whole));
}

/** Checks the state that the kill left, then folds the rest. Returns the offset at which folding continued. */
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

const folder = mkdtempSync(join(tmpdir(), 'headgate-crash-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Offset at which folding continued from each copy of the files, keyed by the number of the next statement. */
const continuedAt = new Map<number, number>();
let statements = 0;
/** Number of statements from one that is tried to the next. In the nightly run, every statement is tried. */
const distance = Math.ceil(80 / runs({ fast: 10, full: 10 }));
/** Number of copies tried for each real kill. Real kills are fewer, because each of them starts a process. */
const copiesOfKill = 10;

beforeAll(async () => {
  const path = join(folder, 'copied');
  const { code, output } = await fold(path, `copy ${distance}`);
  expect(code).toBe(0);
  statements = Number(output);
  for (let n = 1; n <= statements; n += distance) continuedAt.set(n, recover(`${path}.${n}`, n));
}, scaledMs(300_000));

test('a crash before any statement of a fold loses and repeats nothing', () => {
  expect(continuedAt.size).toBeGreaterThan(300 / distance);
  // Folding must have continued at every chunk of the history, because otherwise the loss of a chunk could go unnoticed.
  const all = [...continuedAt.values(), whole.nextOffset];
  expect(new Set(all)).toEqual(new Set(undisturbed.keys()));
});

test('a process killed before a statement leaves exactly the contents of its files', {
  timeout: scaledMs(900_000),
}, async () => {
  for (const n of [...continuedAt.keys()].filter((_, at) => at % copiesOfKill === 0)) {
    const path = join(folder, `killed-${n}`);
    expect(await fold(path, String(n))).toMatchObject({ signal: 'SIGKILL' });
    expect(recover(path, n), `killed before statement ${n}`).toBe(continuedAt.get(n));
  }
});

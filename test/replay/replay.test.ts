/**
 * Golden logs: each must give, in every later build, the position and the digests that are stored with it. A log here is
 * only ever added, never changed. Where a new version of the fold gives other digests, raise `foldVersion` and add a
 * line for that version to the expectation; the lines of earlier versions stay.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/event-definitions.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { verify } from '../../shared/snapshot/verify.ts';

const folder = import.meta.dirname;
const logs = readdirSync(folder)
  .filter((name) => name.endsWith('.jsonl'))
  .map((name) => name.slice(0, -'.jsonl'.length));

/** One record a line: offset, value in base64, and its signature where it has one. */
function readLog(name: string): LogRecord[] {
  const lines = readFileSync(join(folder, `${name}.jsonl`), 'utf8')
    .trimEnd()
    .split('\n');
  return lines.map((line) => {
    const { offset, value, signature } = JSON.parse(line);
    return {
      offset,
      value: Buffer.from(value, 'base64'),
      signature: signature === undefined ? null : Buffer.from(signature, 'base64'),
    };
  });
}

interface Expected {
  /** Follows from the accept rule alone, so no version of the fold may change it. */
  readonly position: {
    readonly log: string;
    readonly seq: number;
    readonly hash: string;
    readonly skipped: number;
  };
  readonly digestsByFoldVersion: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

test('there are golden logs', () => {
  expect(logs.length).toBeGreaterThanOrEqual(3);
});

test.each(logs)('the golden log %s gives its position and digests', (name) => {
  const expected: Expected = JSON.parse(readFileSync(join(folder, `${name}.expected.json`), 'utf8'));
  const records = readLog(name);
  const snapshot = memorySnapshot();
  expect(snapshot.apply(records).consumed).toBe(records.length);
  const { log, seq, hash } = snapshot.head;
  expect({ log, seq, hash, skipped: snapshot.skipped }).toEqual(expected.position);
  expect(snapshot.digests()).toEqual(expected.digestsByFoldVersion[String(foldVersion)]);
  expect(snapshot.divergedAt).toBeNull();
  expect(verify(snapshot.db).differing).toEqual([]);
});

test('every event type and version stands in some golden log', () => {
  const seen = new Set<string>();
  for (const name of logs)
    for (const { value } of readLog(name)) {
      const text = value.toString('utf8');
      if (!text.startsWith('{"v":1,')) continue;
      for (const { type, v } of JSON.parse(text).events) seen.add(`${type} ${v}`);
    }
  expect(eventTypeNames.map((type) => `${type} 1`).filter((type) => !seen.has(type))).toEqual([]);
});

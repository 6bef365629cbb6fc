/**
 * Tests the golden logs: every later build must compute the position and digests stored with each log. Logs are only ever
 * added, never changed. If a new fold version computes other digests, raise `foldVersion` and add a line for this version to
 * the expectation, but keep the lines of earlier versions. `npm run golden -- add` adds the line.
 */
import { expect, test } from 'vitest';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { verify } from '../../shared/snapshot/verify.ts';
import { expectedOf, folded, goldenLogs, readLog, typesWithoutLog } from './golden-files.ts';

const logs = goldenLogs();

test('there are golden logs', () => {
  expect(logs.length).toBeGreaterThanOrEqual(3);
});

test.each(logs)('replaying the golden log %s gives its position and digests', (name) => {
  const expected = expectedOf(name);
  const records = readLog(name);
  const { snapshot, consumed, position } = folded(records);
  expect(consumed).toBe(records.length);
  expect(position).toEqual(expected.position);
  expect(snapshot.digests()).toEqual(expected.digestsByFoldVersion[foldVersion]);
  expect(snapshot.divergedAt).toBeNull();
  expect(verify(snapshot.db).differing).toEqual([]);
});

test('every event type occurs in some golden log', () => {
  expect(typesWithoutLog(), 'npm run golden -- add').toEqual([]);
});

/**
 * Tests that the golden log and its decisions only ever grow. `promised.json` has one entry for each time that lines were
 * added: the number of lines and their digest at that time. New lines need a new entry (`npm run golden -- add`), and no
 * entry may be changed. So lines cannot be edited, moved or removed unnoticed.
 */
import { afterAll, describe, expect, test } from 'vitest';
import {
  corpusHosts,
  differences,
  factsOf,
  openCorpus,
  recordedCases,
  superseded,
} from './decisions/corpus.ts';
import { replayDecision } from './decisions/replay.ts';
import { brokenPromises, decisionLines, type Promised, promiseOf, readPromised } from './golden-files.ts';

const lines = decisionLines();
const promised = readPromised();
const corpus = openCorpus();
afterAll(() => corpus.close());

test('the lines begin as every entry states, and the last entry covers all of them', () => {
  expect(brokenPromises(lines)).toEqual([]);
  expect(promised.at(-1), 'npm run golden -- add').toEqual(promiseOf(lines));
});

test('the first entry states what 0.1.0 promised', () => {
  expect(promised[0]).toEqual({
    commits: 21,
    decisions: 189,
    sha256: 'f2913d18e8a9b0cbc166dbac9318682b1bfc22de7de4bd445d0d0126c7eb7b9e',
  });
});

test('each entry covers more than the previous one', () => {
  for (const [index, { commits, decisions }] of promised.slice(1).entries()) {
    const before = promised[index] as Promised;
    expect(commits).toBeGreaterThanOrEqual(before.commits);
    expect(decisions).toBeGreaterThan(before.decisions);
  }
});

describe('a change is noticed:', () => {
  const first = lines.decisions[0] as string;
  test.each([
    ['an edited line', [first.replace('cedar', 'acme'), ...lines.decisions.slice(1)]],
    ['a removed line', lines.decisions.slice(1)],
    ['two swapped lines', [lines.decisions[1] as string, first, ...lines.decisions.slice(2)]],
    ['an inserted line', [first, first, ...lines.decisions.slice(1)]],
  ])('%s', (_what, decisions) => {
    expect(brokenPromises({ ...lines, decisions }).length).toBe(promised.length);
  });
});

test.each(superseded)(
  '"$name" no longer holds, and "$instead" replaces it for the same facts',
  ({ name, instead, because }) => {
    const [old, now] = [name, instead].map((one) => recordedCases.find((each) => each.name === one));
    if (!old || !now) throw new Error('both must be recorded');
    expect(factsOf(now)).toEqual(factsOf(old));
    expect(now.atSeq).toBe(old.atSeq);
    expect(because.length).toBeGreaterThan(40);
    const decision = replayDecision(corpus.at(old), factsOf(old), corpusHosts);
    expect(differences(old.decision, decision)).not.toEqual([]);
    expect(differences(now.decision, decision)).toEqual([]);
  },
);

test('few decisions have ever been changed, each once', () => {
  const names = superseded.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(superseded.length).toBeLessThan(recordedCases.length / 20);
});

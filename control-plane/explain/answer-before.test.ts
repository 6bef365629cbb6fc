import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RuledVerdict } from '../../schemas/records/explanations.ts';
import { answerBefore } from './answer-before.ts';

const served: RuledVerdict = { outcome: 'served', served: true, status: 200 };
const refused: RuledVerdict = {
  outcome: 'refused',
  served: false,
  status: 503,
  type: 'InferenceUnavailableError',
};

test('the previous answer is found with few reads, wherever the last change is', () => {
  fc.assert(
    fc.property(
      fc
        .integer({ min: 2, max: 1_000_000 })
        .chain((at) => fc.tuple(fc.constant(at), fc.integer({ min: 2, max: at }))),
      fc.boolean(),
      ([at, changedAt], isGuessed) => {
        let reads = 0;
        const found = answerBefore(
          { at, now: refused, candidates: isGuessed ? [changedAt - 1] : [] },
          1,
          (seq) => {
            reads++;
            return seq < changedAt ? served : refused;
          },
        );
        expect(found).toEqual({ position: changedAt - 1, served: true, status: 200 });
        expect(reads).toBeLessThan(50);
      },
    ),
  );
});

test('an answer that existed only for a while is found between then and now', () => {
  const found = answerBefore({ at: 100, now: served, candidates: [45] }, 1, (seq) =>
    seq >= 40 && seq < 60 ? refused : served,
  );
  expect(found).toMatchObject({ status: 503 });
  expect(found?.position).toBe(59);
});

test('an answer that never changed has no previous one', () => {
  expect(answerBefore({ at: 500, now: served, candidates: [7] }, 1, () => served)).toBeUndefined();
  expect(answerBefore({ at: 1, now: served, candidates: [] }, 1, () => refused)).toBeUndefined();
});

test('in a truncated history nothing before its start is read, but the start itself is', () => {
  const read: number[] = [];
  const changed = (at: number) => (seq: number) => {
    read.push(seq);
    return seq < at ? refused : served;
  };
  const asked = { at: 5000, now: served, candidates: [120, 40] };
  expect(answerBefore(asked, 1000, changed(1001))).toMatchObject({ position: 1000, status: 503 });
  expect(answerBefore(asked, 1000, changed(900))).toBeUndefined();
  expect(Math.min(...read)).toBe(1000);
});

/** Tests that records, metrics and explanations can describe all causes and steps. */
import { expect, test } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { causeNames, causes, causeText, findCause } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Step } from './step.ts';
import { describeStep, type StepContext } from './step-texts.ts';
import { stepNames, steps } from './steps.ts';
import { Trace } from './trace.ts';

const detail = 'status 500';
const state: StepContext = {
  ...{ model: 'm', isBound: false },
  nameOf: (_table, id) => id,
  nodesAt: () => [],
  isInstalled: () => false,
};

test('a record of each cause is read back as that cause, and its text is short enough for a label', () => {
  for (const cause of causeNames) {
    const { stage, type } = causes[cause];
    const reason = causeText(cause, detail);
    expect(findCause({ stage, type, reason }), cause).toBe(cause);
    expect(reason.length, cause).toBeLessThanOrEqual(40);
  }
  const types = new Set<RefusalType>(causeNames.map((cause) => causes[cause].type));
  expect([...types].sort()).toEqual(Object.keys(refusalKinds).sort());
});

test('a playground refusal by rule is read back as its cause, even without a parsed request', () => {
  for (const [type, reason, cause] of [
    ['Unauthorized', 'expired', 'expired'],
    ['InferenceUnavailableError', 'fenced', 'fenced'],
    ['Unauthorized', 'fenced', 'fenced without a key'],
  ] as const)
    expect(findCause({ stage: 'http', type, reason })).toBe(cause);
  expect(findCause({ stage: 'answer', type: 'LaterError', reason: 'later' })).toBeUndefined();
});

test('each step has a text for each cause: the cause’s own or one for the step', () => {
  for (const cause of causeNames) {
    const { step, type, says } = causes[cause];
    const facts = { type, ...(says === null && { keyId: 'key-1', state: cause }) };
    const refused: Step = { step, result: 'refused', facts, reads: [], cause };
    const { text } = describeStep(refused, steps[step].texts, state);
    if (says !== null) expect(text, cause).toBe(says);
    expect(text, cause).not.toMatch(/^$|does not know/);
  }
});

test('a step’s other results read differently from its refusal, unless both are numbers', () => {
  for (const step of stepNames) {
    const { texts } = steps[step];
    const say = (result: Step['result']): string =>
      describeStep({ step, result, facts: {}, reads: [] }, texts, state).text;
    expect(say('skipped')).toBe('not asked');
    if (texts.refused !== undefined && texts.ok !== undefined && texts.ok !== texts.refused)
      expect(say('ok'), step).not.toBe(say('refused'));
  }
});

test('a step’s first result holds: a later refusal changes neither the step nor the verdict', () => {
  const trace = new Trace();
  const first = new Refusal('revoked', 'first');
  trace.refuse(first);
  trace.refuse(new Refusal('expired', 'second'));
  trace.add('key', 'ok');
  expect(trace.steps).toMatchObject([{ step: 'key', result: 'refused', refusal: first, cause: 'revoked' }]);
  expect(trace.refusal).toBe(first);
});

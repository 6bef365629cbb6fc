/** Tests that `doctor` names an engine whose responses have an unusual form, with the model and the form. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { chat, framesOf } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

let fleet: TestFleet;
let key: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  ({ value: key } = await fleet.key('birch'));
  await fleet.settle();
});
afterAll(() => fleet.close());

async function doctorNames(form: string): Promise<void> {
  await until(async () => {
    const { checks } = (await fleet.admin.call('GET', '/doctor')) as unknown as {
      checks: { code: string; object?: string; text: string }[];
    };
    const found = checks.filter(({ code, object }) => code === 'HG5008' && object === 'pool-1');
    return found.some(({ text }) => text.includes(`echo-small: ${form}`));
  });
}

async function streamWith(fault: object): Promise<Awaited<ReturnType<typeof chat>>> {
  fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
  return chat({ port: fleet.port(), key, model: 'echo-small', more: { stream: true } });
}

test('a finish reason known to only one engine completes the answer, and doctor names it', async () => {
  const frames = framesOf(await streamWith({ kind: 'finish-abort', finishReason: 'repetition' }));
  expect(frames.at(-1)).toBe('[DONE]');
  expect(frames.at(-2)).toContain('"finish_reason":"stop"');
  await doctorNames('an unknown finish reason, repetition');
});

const malformed = "the node's answer is malformed";

test.each([
  [{ kind: 'garbage', afterEvents: 2 }, `${malformed}: an event is not a JSON object`],
  [{ kind: 'finish-abort', finishReason: '' }, `${malformed}: a choice has no finish reason`],
  [{ kind: 'clean-end-without-done' }, `${malformed}: every choice has finished, but [DONE] is missing`],
  [{ kind: 'content-type', contentType: 'text/html' }, 'the node answered with a wrong content type'],
])('an ambiguous answer is refused, and doctor names it: %j', async (fault, form) => {
  const { status, whole } = await streamWith(fault);
  expect([status, whole]).not.toEqual([200, true]);
  await doctorNames(form);
});

/**
 * Explanations are true: random requests are sent, and each explanation is compared with the answer, with the record, and
 * with what this client counted. HEADGATE_EXPLAINED sets the number of requests.
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { windowStartMs } from '../../shared/decision/decide.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chatBody } from '../support/api.ts';
import { runs } from '../support/budget.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { completion } from '../support/process-fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

const perMinute = 12;
const count = Number(process.env['HEADGATE_EXPLAINED'] ?? runs({ fast: 40, full: 50 }));
let fleet: TestFleet;
const keys = new Map<string, string>();
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  await fleet.admin.call('PUT', '/tiers/Near', {
    ...{ rank: 50, models: ['echo-small'], requestsPerMinute: perMinute, contextTokens: 5000 },
  });
  for (const id of ['near-a', 'near-b'])
    await fleet.admin.call('POST', '/organisations', { id, name: id, tier: 'Near' });
  for (const id of ['acme', 'birch', 'cedar', 'near-a', 'near-b']) keys.set(id, (await fleet.key(id)).value);
  const revoked = await fleet.key('cedar');
  await fleet.admin.call('POST', `/keys/${revoked.id}/revoke`);
  keys.set('revoked', revoked.value);
  await fleet.settle();
});
afterAll(() => fleet.close());

interface Sent {
  readonly who: string;
  readonly model: string;
  readonly maxTokens: number;
  readonly isBroken: boolean;
}

const sent: fc.Arbitrary<Sent> = fc.record({
  who: fc.constantFrom('acme', 'birch', 'cedar', 'near-a', 'near-a', 'near-b', 'revoked', 'nobody'),
  model: fc.constantFrom(
    'echo-small',
    'echo-small',
    'echo-small',
    'echo-large',
    'echo-idle',
    'unknown-model',
  ),
  maxTokens: fc.constantFrom(1, 1, 7, 1_000_000),
  isBroken: fc.nat(11).map((n) => n === 0),
});

function send({ who, model, maxTokens, isBroken }: Sent): Promise<Answer> {
  const body = { ...chatBody(model), max_tokens: maxTokens, ...(isBroken && { messages: 7 }) };
  return call({
    ...{ port: fleet.port(), method: 'POST', path: '/v1/chat/completions', body },
    headers: { authorization: `Bearer ${keys.get(who) ?? 'sk-none'}` },
  });
}

/** Words that a step that was passed cannot have. */
const failed =
  /could not|does not|is not|not installed|no plan|no host|no nodes|too old|nothing at|the other|not asked/;
/** Requests that counted in the limits, by organisation: when they were decided. */
const counted = new Map<string, number[]>();
const seen = new Set<string>();

async function check(each: Sent): Promise<void> {
  const answer = await send(each);
  const error = answer.status === 200 ? undefined : JSON.parse(answer.content).error;
  const request = answer.fields['x-request-id'] ?? '';
  let answered: unknown;
  // A gateway that is busy for seconds does not answer the question.
  await until(async () => {
    answered = await fleet.admin.call('POST', '/explain', { request }).catch(() => undefined);
    return answered !== undefined;
  });
  const found = explanationSchema.parse(answered);
  const { decision } = (await fleet.admin.call('GET', `/decisions/${request}`)) as {
    decision: { at: number; promptTokensMax: number; organisation?: string };
  };
  const label = JSON.stringify({ each, status: answer.status, steps: found.steps });
  seen.add(error?.type ?? 'served');
  expect(found.verdict, label).toEqual(
    error === undefined
      ? { outcome: 'served', served: true, status: 200 }
      : {
          outcome: 'refused',
          served: false,
          status: answer.status,
          type: error.type,
          message: error.message,
        },
  );
  expect(found.same, label).toBe(true);
  for (const { result, text } of found.steps) {
    if (result === 'ok') expect(text, label).not.toMatch(failed);
    if (result === 'skipped') expect(text, label).toMatch(/^not asked/);
  }
  const step = (name: string) => found.steps.find((one) => one.step === name);
  const { facts: context = {}, result: contextResult, text = '' } = step('context') ?? {};
  if (contextResult === 'ok' || contextResult === 'refused') {
    expect(Number(context['prompt']) + Number(context['answer']), label).toBe(context['needed']);
    expect(context['answer'], label).toBe(each.maxTokens);
    if (context['atLeast'] !== true) expect(context['prompt'], label).toBe(decision.promptTokensMax);
    const shown = (tokens: unknown): string => Number(tokens).toLocaleString('en-US');
    expect(text, label).toContain(
      `${shown(context['prompt'])} of the prompt, ${shown(each.maxTokens)} for the answer`,
    );
  } else expect(each.isBroken || ['revoked', 'nobody'].includes(each.who), label).toBe(true);
  if (each.who.startsWith('near')) checkRequests(each, decision.at, step('requests'), label);
  const passed = error === undefined || /Unavailable|NotInPlan|DedicatedOnly/.test(error.type);
  if (passed) counted.set(each.who, [...(counted.get(each.who) ?? []), decision.at]);
  if (error !== undefined) return;
  expect(['own nodes', 'nodes'], label).toContain(found.decisive);
  const now = explanationSchema.parse(
    await fleet.admin.call('POST', '/explain', { organisation: each.who, model: each.model }),
  );
  if (now.verdict.served) expect(now.decisive, label).toBe(found.decisive);
}

function checkRequests(
  { who }: Sent,
  atMs: number,
  step: { result: string; text: string; facts: Record<string, unknown> } | undefined,
  label: string,
): void {
  if (step === undefined || step.result === 'skipped') return;
  const { here, elsewhere = 0, room, allowed } = step.facts;
  const minute = windowStartMs(who, atMs);
  const mine = (counted.get(who) ?? []).filter((ms) => windowStartMs(who, ms) === minute).length;
  expect([here, elsewhere, allowed], label).toEqual([mine, 0, perMinute]);
  expect(Number(room), label).toBeLessThanOrEqual(perMinute - mine);
  expect(Number(room) > 0, label).toBe(step.result === 'ok');
  expect(step.text, label).toMatch(new RegExp(`^${mine} `));
  expect(step.text, label).toContain(`of ${perMinute}`);
}

test('a decision has the time and the state at which it was made, however long its answer takes', async () => {
  const node = fleet.nodes['pool-1'];
  node.setBehaviour(
    parseBehaviour({ rules: [{ match: { stream: true }, fault: { kind: 'stall-after', afterEvents: 2 } }] }),
  );
  const position = await fleet.admin.position();
  const fromMs = Date.now();
  const client = new AbortController();
  const api = fleet.gateways[0]?.api ?? '';
  const key = keys.get('cedar') ?? '';
  const stream = await completion(api, key, { stream: true }, { signal: client.signal });
  expect(stream.status).toBe(200);
  const toMs = Date.now();
  await fleet.admin.call('POST', '/organisations', { id: 'later', name: 'Later' });
  await fleet.settle();
  await until(() => Date.now() > toMs);
  client.abort();
  node.setBehaviour(parseBehaviour({}));
  const request = stream.headers.get('x-request-id') ?? '';
  let found: Explanation | undefined;
  await until(async () => {
    const answer = await fleet.admin.call('POST', '/explain', { request }).catch(() => undefined);
    if (answer !== undefined) found = explanationSchema.parse(answer);
    return found !== undefined;
  });
  expect(found).toMatchObject({ at: position, same: true });
  const atMs = Date.parse(found?.time ?? '');
  expect([atMs >= fromMs, atMs <= toMs], `${fromMs} ${atMs} ${toMs}`).toEqual([true, true]);
});

test('what explanations say of random requests is what was sent, answered and counted', async () => {
  const requests = fc.sample(sent, { numRuns: count });
  for (const each of requests) await check(each);
  expect(seen.has('served')).toBe(true);
}, 3_600_000);

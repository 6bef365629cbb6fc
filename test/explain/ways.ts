/**
 * Sends requests to a running fleet and explains them. For an answer's `x-request-id`, `headgate explain` must print the same
 * status, type and message. It must also name the event that caused a refusal, and print a command after which the request is
 * served.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import type { DemoNodeId } from '../../tools/dev/demo-fleet.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type Answer, call, chatBody } from '../support/api.ts';
import type { CliRun } from '../support/run-cli.ts';
import { stackHost, stacks } from '../support/spec-fleet.ts';

/** The fleet of the specification tests, in which the stack `heron` uses the Anthropic API. */
export interface Scene {
  readonly admin: DevAdmin;
  readonly port: number;
  readonly keys: Readonly<Record<string, string>>;
  cli(...argv: string[]): Promise<CliRun>;
  /** Waits until the gateway enforces the latest commit. */
  settle(): Promise<void>;
}

let scene: Scene;
export function useScene(used: Scene): void {
  scene = used;
}

/** One way to send a request: an API on one kind of host. */
export interface Way {
  readonly organisation: string;
  readonly model: string;
  readonly host: string;
  readonly path: string;
  readonly stack?: string;
  /** The node to drain so that requests sent this way are no longer served. */
  readonly node: DemoNodeId;
}

export const ways = {
  'chat at the shared host': {
    ...{ organisation: 'cedar', model: 'echo-small', host: '127.0.0.1', path: '/v1/chat/completions' },
    node: 'pool-1',
  },
  'chat at a stack': {
    ...{ organisation: 'acme', model: 'echo-large', host: stackHost('otter'), path: '/v1/chat/completions' },
    ...{ node: 'acme-s1', stack: stacks.otter },
  },
  'messages at a stack': {
    ...{ organisation: 'birch', model: 'echo-small', host: stackHost('heron'), path: '/v1/messages' },
    ...{ node: 'birch-s1', stack: stacks.heron },
  },
} as const satisfies Record<string, Way>;
export type WayName = keyof typeof ways;
export const wayNames = Object.keys(ways) as WayName[];

/** Changes to the standard request that a `Way` sends. */
export interface Change {
  readonly organisation?: string;
  /** Value of the key. Null sends the request without a key. */
  readonly key?: string | null | undefined;
  readonly more?: object;
  readonly path?: string;
  readonly host?: string;
  /** Body of the request. Null sends the request without a body. */
  readonly body?: unknown;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function ask(way: Way, change: Change = {}): Promise<Answer> {
  const { organisation = way.organisation, key = scene.keys[organisation] ?? '', ...rest } = change;
  const { more, body, headers, ...parts } = rest;
  const isMessages = (parts.path ?? way.path).startsWith('/v1/messages');
  const method = parts.method ?? 'POST';
  return call({
    ...{ port: scene.port, host: way.host, path: way.path, ...parts, method },
    ...(key !== null && { key }),
    headers: { ...(isMessages && { 'anthropic-version': '2023-06-01' }), ...headers },
    ...(method === 'POST' &&
      body !== null && {
        body: body ?? { ...chatBody(way.model, isMessages ? { max_tokens: 9 } : {}), ...more },
      }),
  });
}

/** Returns the explanation of an answer. Fails unless it agrees with the answer. */
export async function explained(answer: Pick<Answer, 'status' | 'fields' | 'content'>): Promise<Explanation> {
  const run = await scene.cli('explain', '--request', answer.fields['x-request-id'] ?? '', '-o', 'json');
  if (run.out === '') throw new Error(run.err);
  const found = explanationSchema.parse(JSON.parse(run.out));
  const { status } = answer;
  const { type, message } = status === 200 ? {} : JSON.parse(answer.content).error;
  expect(found.verdict).toEqual(
    status === 200
      ? { outcome: 'served', served: true, status }
      : { ...{ outcome: 'refused', served: false, status }, type, message },
  );
  expect([run.code, found.same]).toEqual([status === 200 ? 0 : 1, true]);
  return found;
}

export const seen = new Set<RefusalType>();
export function refused(answer: Answer, type: RefusalType): void {
  expect(JSON.parse(answer.content).error?.type, answer.content).toBe(type);
  expect(answer.status).toBe(refusalKinds[type].status);
  seen.add(type);
}

/** Returns the first step that refused, apart from `own nodes`: if these do not serve the request, it just moves on. */
export const refusedStep = ({ steps }: Explanation): string | undefined =>
  steps.find(({ result, step }) => result === 'refused' && step !== 'own nodes')?.step;

export const becauseOf = ({ steps, decisive }: Explanation) =>
  steps.find(({ step }) => step === decisive)?.because;

/** Runs the first command of an explanation and returns its output. */
export async function runFirst({ would: [first = ''] }: Explanation): Promise<string> {
  expect(first).toMatch(/^headgate /);
  const run = await scene.cli(...first.split(' ').slice(1), '--yes');
  expect(run.err + run.out, first).not.toContain('error[');
  await scene.settle();
  return run.out.trim();
}

let made = 0;
/** Moves the organisation to a new tier with these limits. Returns the position of the commit that set the tier. */
export async function limit({ organisation }: Way, limits: object): Promise<number> {
  const tier = `Limited-${++made}`;
  const set = await scene.admin.call('PUT', `/tiers/${tier}`, { rank: 10 + made, models: '*', ...limits });
  await scene.admin.call('PATCH', `/organisations/${organisation}`, { tier });
  await scene.settle();
  return Number(set['position']);
}

/** Waits until the gateway enforces the command's commit, and returns its position. */
export async function positionOf(answer: Promise<object>): Promise<number> {
  const { position } = (await answer) as { readonly position?: number };
  await scene.settle();
  return position ?? 0;
}

const [chat, stackChat, stackMessages] = [
  ways['chat at the shared host'],
  ways['chat at a stack'],
  ways['messages at a stack'],
];

interface TurnedAnswer {
  readonly type: RefusalType;
  readonly way: Way;
  /** Type of the event that causes the refusal. */
  readonly event: string;
  /**
   * Carries out the command that causes the event. Returns the event's position and, if the request needs a key of its own,
   * this key.
   */
  arrange(): Promise<number | { readonly position: number; readonly key: string }>;
  readonly more?: object;
}

const drain = ({ node }: Way): Promise<number> =>
  positionOf(scene.admin.call('POST', `/nodes/${node}/drain?force=true`));

/** One refusal for each type that the state can cause. golden.test.ts explains all causes. */
const turned: readonly TurnedAnswer[] = [
  {
    ...{ type: 'Unauthorized', way: chat, event: 'key.revoked' },
    arrange: async () => {
      const { id, value: key } = await scene.admin.createKey(chat.organisation, 'revoked');
      return { position: await positionOf(scene.admin.call('POST', `/keys/${id}/revoke`)), key };
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', way: stackChat, event: 'organisation.suspended' },
    arrange: () =>
      positionOf(scene.admin.call('PATCH', `/organisations/${stackChat.organisation}`, { suspended: true })),
  },
  {
    ...{ type: 'ContextWindowExceededError', way: stackMessages, event: 'tier.set' },
    ...{ arrange: () => limit(stackMessages, { contextTokens: 4 }), more: { max_tokens: 50 } },
  },
  {
    ...{ type: 'InferenceUpsellError', way: chat, event: 'tier.set' },
    arrange: async () => {
      expect((await ask(chat)).status).toBe(200);
      return limit(chat, { monthlyTokens: 1 });
    },
  },
  {
    ...{ type: 'InferenceRateLimitedError', way: stackChat, event: 'tier.set' },
    arrange: () => limit(stackChat, { requestsPerMinute: 0 }),
  },
  {
    ...{ type: 'InferenceConcurrencyLimitedError', way: stackMessages, event: 'tier.set' },
    arrange: () => limit(stackMessages, { concurrency: 0 }),
  },
  {
    ...{ type: 'InferenceUnavailableError', way: chat, event: 'node.drained' },
    arrange: () => drain(chat),
  },
  {
    ...{ type: 'TargetNotServingError', way: stackMessages, event: 'node.drained' },
    arrange: () => drain(stackMessages),
  },
  {
    ...{ type: 'DedicatedOnlyModelError', way: chat, event: 'pool.model_uninstalled' },
    arrange: () => positionOf(scene.admin.call('DELETE', `/pool/models/${chat.model}`)),
  },
  {
    ...{ type: 'UnsupportedShapeError', way: stackMessages, event: 'stack.surface_set' },
    arrange: () =>
      positionOf(scene.admin.call('PUT', `/stacks/${stackMessages.stack}/surface`, { surface: 'openai' })),
  },
];

const noModel = { method: 'GET', path: '/v1/models/none' };
const huge = { 'content-type': 'application/json', 'content-length': String(33 * 1024 * 1024) };
type Refused = readonly [type: RefusalType, name: string, way: Way, step: string, change: Change];

/** Requests that are refused in any state: one for each type of refusal, and one for each form that no rule can judge. */
const refusals: readonly Refused[] = [
  ['Unauthorized', 'no key', chat, 'key', { key: null }],
  ['NotFoundError', 'no such path', stackChat, 'path', { path: '/v1/none' }],
  ['UnsupportedShapeError', 'a bad body', stackMessages, 'shape', { body: '{"model":' }],
  ['UnsupportedShapeError', 'bad HTTP', chat, 'http', { method: 'GET?' }],
  ['UnsupportedShapeError', 'an odd Expect', stackChat, 'http', { headers: { expect: 'a-miracle' } }],
  [
    ...(['UnsupportedShapeError', 'an encoded body', stackMessages, 'shape'] as const),
    { headers: { 'content-encoding': 'br' } },
  ],
  ['PayloadTooLargeError', 'a large body', chat, 'shape', { headers: huge, body: null }],
  ['PayloadTooLargeError', 'large headers', stackChat, 'http', { headers: { a: 'a'.repeat(20_000) } }],
  ['DedicatedOnlyModelError', 'no such model in the list', chat, 'listing', noModel],
  ['TargetNotServingError', 'no such model in the list', stackMessages, 'listing', noModel],
];

const served: readonly (readonly [name: string, step: string, way: Way, change: Change])[] = [
  ['chat from the pool', 'nodes', chat, {}],
  ['a stream of messages', 'nodes', stackMessages, { more: { stream: true } }],
  ['chat from an own node', 'own nodes', chat, { organisation: 'acme' }],
  ['a public list', 'listing', chat, { method: 'GET', path: '/v1/models', key: null }],
];

export function proveWays(): void {
  describe('a refusal that the state causes is explained by its event, and the first command ends it:', () => {
    test.each(turned)('$type', async ({ type, way, event, arrange, more }) => {
      const arranged = await arrange();
      const { position, key } =
        typeof arranged === 'number' ? { position: arranged, key: undefined } : arranged;
      const send = (by: string | undefined) => ask(way, { key: by, ...(more && { more }) });
      const answer = await send(key);
      refused(answer, type);
      const found = await explained(answer);
      expect(becauseOf(found)).toMatchObject({ type: event, position });
      const { events } = await scene.admin.call('GET', `/events/${position}`);
      expect((events as { type: string }[]).map((one) => one.type)).toContain(event);
      // The explanation first suggests other plans, then removing the limit from the tier.
      if (/Context|Upsell|Limited/.test(type))
        expect(found.would.at(-1)).toMatch(/^headgate tier set Limited-\d+ --[a-z-]+ none$/);
      const printed = await runFirst(found);
      const again = await send(type === 'Unauthorized' ? printed : undefined);
      expect(again.status, `${found.would[0]}: ${again.content}`).toBe(200);
      await explained(again);
    });
  });

  describe('a refusal that only another request would avoid is explained by its step:', () => {
    test.each(refusals)('%s, %s', async (type, _name, way, step, change) => {
      const answer = await ask(way, change);
      refused(answer, type);
      const found = await explained(answer);
      expect([refusedStep(found), found.would]).toEqual([step, []]);
    });
  });

  describe('a served request is explained:', () => {
    // Earlier tests have moved the organisation to another tier.
    beforeAll(() => positionOf(scene.admin.call('PATCH', '/organisations/acme', { tier: 'Platinum' })));
    test.each(served)('%s', async (_name, step, way, change) => {
      const answer = await ask(way, change);
      expect(answer.status, answer.content).toBe(200);
      const { steps } = await explained(answer);
      expect(steps.find((each) => each.step === step)).toMatchObject({ result: 'ok' });
    });
  });
}

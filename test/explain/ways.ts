/**
 * The ways to ask a fleet of the specification, an API style at a kind of host each; what it refuses by its state and for its own
 * sake, and what it serves. By the `x-request-id` of each answer, `headgate explain` says the same status, type and message,
 * names the event of the log that made it so, and its first command turns the answer when it is run.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import type { DemoNodeId } from '../../dev/demo-fleet.ts';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { type RefusalType, refusalKinds } from '../../schemas/refusals.ts';
import { type Answer, call, chatBody } from '../support/api.ts';
import type { CliRun } from '../support/run-cli.ts';
import { stackHost, stacks } from '../support/spec-fleet.ts';

/** A fleet of the specification, of which the stack `heron` is switched. */
export interface Scene {
  readonly admin: DevAdmin;
  readonly port: number;
  /** By organisation. */
  readonly keys: Readonly<Record<string, string>>;
  cli(...argv: string[]): Promise<CliRun>;
  /** Waits until the gateway has what was commanded. */
  settle(): Promise<void>;
}

let at: Scene;
export function askOf(scene: Scene): void {
  at = scene;
}

/** A way to ask: an API style at a kind of host. */
export interface Way {
  readonly organisation: string;
  readonly model: string;
  readonly host: string;
  readonly path: string;
  readonly stack?: string;
  /** Whose drain ends the service. */
  readonly node: string;
  readonly sim: DemoNodeId;
}

export const ways = {
  'chat at the shared host': {
    ...{ organisation: 'cedar', model: 'echo-small', host: '127.0.0.1', path: '/v1/chat/completions' },
    ...{ node: 'pool-1', sim: 'pool-1' },
  },
  'chat at a stack': {
    ...{ organisation: 'acme', model: 'echo-large', host: stackHost('otter'), path: '/v1/chat/completions' },
    ...{ node: 'acme-s1', sim: 'acme-s1', stack: stacks.otter },
  },
  'messages at a stack': {
    ...{ organisation: 'birch', model: 'echo-small', host: stackHost('heron'), path: '/v1/messages' },
    ...{ node: 'birch-s1', sim: 'birch-s1', stack: stacks.heron },
  },
  'messages at the shared host': {
    ...{ organisation: 'cedar', model: 'echo-small', host: '127.0.0.1', path: '/v1/messages' },
    ...{ node: 'pool-1', sim: 'pool-1' },
  },
} as const satisfies Record<string, Way>;
export type WayName = keyof typeof ways;
export interface Asked {
  /** Another's than that of the way. */
  readonly organisation?: string;
  /** null: none is sent. */
  readonly key?: string | null | undefined;
  readonly more?: object;
  readonly path?: string;
  readonly host?: string;
  /** null: none is sent. */
  readonly body?: unknown;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function ask(way: Way, asked: Asked = {}): Promise<Answer> {
  const {
    organisation = way.organisation,
    key = at.keys[organisation] ?? '',
    more,
    body,
    headers,
    ...parts
  } = asked;
  const isMessages = (parts.path ?? way.path).startsWith('/v1/messages');
  const method = parts.method ?? 'POST';
  return call({
    ...{ port: at.port, host: way.host, path: way.path, ...parts, method },
    ...(key !== null && { key }),
    headers: { ...(isMessages && { 'anthropic-version': '2023-06-01' }), ...headers },
    ...(method === 'POST' &&
      body !== null && {
        body: body ?? { ...chatBody(way.model, isMessages ? { max_tokens: 9 } : {}), ...more },
      }),
  });
}

/** Its explanation, which says what the answer says. */
export async function explained(answer: Pick<Answer, 'status' | 'fields' | 'content'>): Promise<Explanation> {
  const run = await at.cli('explain', '--request', answer.fields['x-request-id'] ?? '', '-o', 'json');
  if (run.out === '') throw new Error(run.err);
  const found = explanationSchema.parse(JSON.parse(run.out));
  const refusal = answer.status === 200 ? undefined : JSON.parse(answer.content).error;
  expect(found.verdict).toEqual(
    refusal === undefined
      ? { outcome: 'served', served: true, status: 200 }
      : {
          outcome: 'refused',
          served: false,
          status: answer.status,
          type: refusal.type,
          message: refusal.message,
        },
  );
  expect([run.code, found.same]).toEqual([refusal === undefined ? 0 : 1, true]);
  return found;
}
/** The types that were refused so far. */
export const seen = new Set<RefusalType>();
export function refused(answer: Answer, type: RefusalType): void {
  expect(JSON.parse(answer.content).error?.type, answer.content).toBe(type);
  expect(answer.status).toBe(refusalKinds[type].status);
  seen.add(type);
}

/** The first step that refused; an own node that does not serve sends a request on. */
export const refusedStep = ({ steps }: Explanation): string | undefined =>
  steps.find(({ result, step }) => result === 'refused' && step !== 'own nodes')?.step;

/** The event that made the decisive step so. */
export const becauseOf = ({ steps, decisive }: Explanation) =>
  steps.find(({ step }) => step === decisive)?.because;

/** Runs the first command, and gives what it printed. */
export async function runFirst({ would: [first = ''] }: Explanation): Promise<string> {
  expect(first).toMatch(/^headgate /);
  const run = await at.cli(...first.split(' ').slice(1), '--yes');
  expect(run.err + run.out, first).not.toContain('error[');
  await at.settle();
  return run.out.trim();
}

let made = 0;
/** Puts the organisation of the way on a tier of its own with these limits; gives the position of the tier. */
export async function limit({ organisation }: Way, limits: object): Promise<number> {
  const tier = `Limited-${++made}`;
  const set = await at.admin.call('PUT', `/tiers/${tier}`, { rank: 10 + made, models: '*', ...limits });
  await at.admin.call('PATCH', `/organisations/${organisation}`, { tier });
  await at.settle();
  return Number(set['position']);
}

export const positionOf = async (answer: Promise<object>): Promise<number> => {
  const { position } = (await answer) as { readonly position?: number };
  await at.settle();
  return position ?? 0;
};

/** The same request again, with another key where the first command made one. */
type Send = (key?: string) => Promise<Answer>;

interface Turned {
  readonly type: RefusalType;
  readonly name: string;
  readonly at: readonly WayName[];
  readonly event: string;
  /** Gives the position of the commit that makes it so. */
  arrange(way: Way): Promise<{ readonly position: number; readonly send: Send }>;
}

export const [chat, stackChat, stackMessages, sharedMessages] = Object.keys(ways) as [
  WayName,
  WayName,
  WayName,
  WayName,
];
export const served = [chat, stackChat, stackMessages];
const stackWays = [stackChat, stackMessages];
const own =
  (way: Way, more?: object): Send =>
  (key) =>
    ask(way, { key, ...(more && { more }) });

const turned: readonly Turned[] = [
  {
    ...{ type: 'Unauthorized', name: 'a revoked key', at: served, event: 'key.revoked' },
    arrange: async (way) => {
      const { id, value } = await at.admin.createKey(way.organisation, 'revoked');
      const position = await positionOf(at.admin.call('POST', `/keys/${id}/revoke`));
      return { position, send: (key = value) => ask(way, { key }) };
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a suspended organisation', at: served },
    event: 'organisation.suspended',
    arrange: async (way) => {
      const path = `/organisations/${way.organisation}`;
      return {
        position: await positionOf(at.admin.call('PATCH', path, { suspended: true })),
        send: own(way),
      };
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a tier without the model', at: [chat], event: 'tier.set' },
    arrange: async (way) => ({ position: await limit(way, { models: ['echo-idle'] }), send: own(way) }),
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a model that no lower tier includes', at: [chat] },
    event: 'tier.set',
    arrange: async (way) => ({
      position: await limit(way, { models: ['echo-idle'] }),
      send: (key) => ask({ ...way, model: 'echo-large' }, { key }),
    }),
  },
  {
    ...{ type: 'ContextWindowExceededError', name: 'a small context', at: served, event: 'tier.set' },
    arrange: async (way) => ({
      position: await limit(way, { contextTokens: 4 }),
      send: own(way, { max_tokens: 50 }),
    }),
  },
  {
    ...{ type: 'InferenceUpsellError', name: 'an allowance that is used up', at: [chat], event: 'tier.set' },
    arrange: async (way) => {
      expect((await ask(way)).status).toBe(200);
      return { position: await limit(way, { monthlyTokens: 1 }), send: own(way) };
    },
  },
  {
    ...{ type: 'InferenceRateLimitedError', name: 'too many requests', at: served, event: 'tier.set' },
    arrange: async (way) => ({ position: await limit(way, { requestsPerMinute: 0 }), send: own(way) }),
  },
  {
    ...{ type: 'InferenceConcurrencyLimitedError', name: 'too many in flight', at: served },
    event: 'tier.set',
    arrange: async (way) => ({ position: await limit(way, { concurrency: 0 }), send: own(way) }),
  },
  {
    ...{ type: 'InferenceUnavailableError', name: 'a drained pool', at: [chat], event: 'node.drained' },
    arrange: async (way) => ({
      position: await positionOf(at.admin.call('POST', `/nodes/${way.node}/drain?force=true`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a drained stack', at: stackWays, event: 'node.drained' },
    arrange: async (way) => ({
      position: await positionOf(at.admin.call('POST', `/nodes/${way.node}/drain?force=true`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a model that was uninstalled', at: stackWays },
    event: 'stack.model_uninstalled',
    arrange: async (way) => ({
      position: await positionOf(at.admin.call('DELETE', `/stacks/${way.stack}/models/${way.model}`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'DedicatedOnlyModelError', name: 'a model taken from the pool', at: [chat] },
    event: 'pool.model_uninstalled',
    arrange: async (way) => ({
      position: await positionOf(at.admin.call('DELETE', `/pool/models/${way.model}`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'UnsupportedShapeError', name: 'a stack of the other style', at: stackWays },
    event: 'stack.surface_set',
    arrange: async (way) => {
      const surface = way.path === '/v1/messages' ? 'openai' : 'anthropic';
      return {
        position: await positionOf(at.admin.call('PUT', `/stacks/${way.stack}/surface`, { surface })),
        send: own(way),
      };
    },
  },
];

const noModel = { method: 'GET', path: '/v1/models/none' };
const huge = { 'content-type': 'application/json', 'content-length': String(33 * 1024 * 1024) };
type Refused = readonly [
  type: RefusalType,
  name: string,
  at: readonly WayName[],
  step: string,
  asked: () => Asked,
];

const refusals: readonly Refused[] = [
  ['Unauthorized', 'no key', [chat, stackChat, stackMessages, sharedMessages], 'key', () => ({ key: null })],
  ['Unauthorized', 'an unknown key', served, 'key', () => ({ key: 'hg_0' })],
  ['NotFoundError', 'no such path', served, 'path', () => ({ path: '/v1/none' })],
  ['NotFoundError', 'no such host', [chat], 'host', () => ({ host: 'other.test' })],
  ['UnsupportedShapeError', 'a bad body', served, 'shape', () => ({ body: '{"model":' })],
  ['UnsupportedShapeError', 'messages', [sharedMessages], 'surface', () => ({})],
  ['PayloadTooLargeError', 'a large body', served, 'shape', () => ({ headers: huge, body: null })],
  ['PayloadTooLargeError', 'large headers', served, 'http', () => ({ headers: { a: 'a'.repeat(20_000) } })],
  ['UnsupportedShapeError', 'bad HTTP', served, 'http', () => ({ method: 'GET?' })],
  ['UnsupportedShapeError', 'an odd Expect', served, 'http', () => ({ headers: { expect: 'a-miracle' } })],
  [
    'UnsupportedShapeError',
    'an encoded body',
    served,
    'shape',
    () => ({ headers: { 'content-encoding': 'br' } }),
  ],
  [
    'Unauthorized',
    'two keys',
    [stackMessages],
    'key',
    () => ({ key: 'hg_1', headers: { 'x-api-key': at.keys['birch'] ?? '' } }),
  ],
  ['DedicatedOnlyModelError', 'no such model in the list', [chat], 'listing', () => noModel],
  ['TargetNotServingError', 'no such model in the list', stackWays, 'listing', () => noModel],
  [
    'DedicatedOnlyModelError',
    'a model nobody knows',
    [chat],
    'pool',
    () => ({ body: chatBody('no-such-model') }),
  ],
  ['UnsupportedShapeError', 'no number', served, 'shape', () => ({ more: { n: 'x' } })],
  ['TargetNotServingError', 'a foreign stack', [chat], 'stack', () => ({ host: stackHost('otter') })],
  ['TargetNotServingError', 'a missing stack', [chat], 'stack', () => ({ host: stackHost('missing') })],
  [
    'TargetNotServingError',
    'a foreign listing',
    [chat],
    'listing',
    () => ({ host: stackHost('otter'), method: 'GET', path: '/v1/models' }),
  ],
];
const list = { method: 'GET', path: '/v1/models' };
const embed = { path: '/v1/embeddings', body: { model: 'echo-embed', input: 'a' } };
const answers: readonly (readonly [name: string, at: WayName, step: string, asked: () => Asked])[] = [
  ['chat from the pool', chat, 'nodes', () => ({})],
  ['a stream from the pool', chat, 'nodes', () => ({ more: { stream: true } })],
  ['chat from a stack', stackChat, 'nodes', () => ({})],
  ['a stream from a stack', stackChat, 'nodes', () => ({ more: { stream: true } })],
  ['messages from a stack', stackMessages, 'nodes', () => ({})],
  ['a stream of messages', stackMessages, 'nodes', () => ({ more: { stream: true } })],
  [
    'counted tokens',
    stackMessages,
    'nodes',
    () => ({ path: '/v1/messages/count_tokens', body: chatBody('echo-small') }),
  ],
  ['embeddings from a stack', stackChat, 'nodes', () => embed],
  [
    'messages with the key in x-api-key',
    stackMessages,
    'nodes',
    () => ({ key: null, headers: { 'x-api-key': at.keys['birch'] ?? '' } }),
  ],
  ['chat from an own node', chat, 'own nodes', () => ({ organisation: 'acme' })],
  ['embeddings from the pool', chat, 'nodes', () => ({ organisation: 'acme', ...embed })],
  ['a public list', chat, 'listing', () => ({ ...list, key: null })],
  ['a list of a stack', stackChat, 'listing', () => list],
  ['a model', chat, 'listing', () => ({ ...list, path: '/v1/models/echo-large' })],
];

/** All rows, or the first of each kind, by another of its ways each. */
export type Extent = 'all' | 'one of each';

function chosen<Row>(extent: Extent, rows: readonly Row[], kindOf: (row: Row) => string): readonly Row[] {
  if (extent === 'all') return rows;
  return rows.filter((row, index) => rows.findIndex((other) => kindOf(other) === kindOf(row)) === index);
}

function byWay<Row>(
  extent: Extent,
  rows: readonly Row[],
  waysOf: (row: Row) => readonly WayName[],
): (readonly [way: WayName, row: Row])[] {
  return rows.flatMap((row, index) => {
    const all = waysOf(row);
    const asked = extent === 'all' ? all : all.filter((_, at) => at === index % all.length);
    return asked.map((way) => [way, row] as const);
  });
}

/** Registers the tests of the three tables. */
export function proveWays(extent: Extent): void {
  describe('what the state refuses is explained by its event, and its first command turns it:', () => {
    const rows = byWay(
      extent,
      chosen(extent, turned, ({ type }) => type),
      (row) => row.at,
    ).map(([way, row]) => [row.type, row.name, way, row] as const);
    test.each(rows)('%s, %s, %s', async (type, _name, wayName, { arrange, event }) => {
      const { position, send } = await arrange(ways[wayName]);
      const answer = await send();
      refused(answer, type);
      const found = await explained(answer);
      expect(becauseOf(found)).toMatchObject({ type: event, position });
      const { events } = await at.admin.call('GET', `/events/${position}`);
      expect((events as { type: string }[]).map((one) => one.type)).toContain(event);
      // After other plans, the tier without its limit.
      if (/Context|Upsell|Limited/.test(type))
        expect(found.would.at(-1)).toMatch(/^headgate tier set Limited-\d+ --[a-z-]+ none$/);
      const printed = await runFirst(found);
      const again = await send(type === 'Unauthorized' ? printed : undefined);
      expect(again.status, `${found.would[0]}: ${again.content}`).toBe(200);
      await explained(again);
    });
  });

  describe('what is refused for its own sake is explained by its step:', () => {
    const rows = byWay(
      extent,
      chosen(extent, refusals, ([type]) => type),
      ([, , all]) => all,
    ).map(([way, [type, name, , step, asked]]) => [type, name, way, step, asked] as const);
    test.each(rows)('%s, %s, %s', async (type, _name, wayName, step, asked) => {
      const answer = await ask(ways[wayName], asked());
      refused(answer, type);
      const found = await explained(answer);
      expect(refusedStep(found)).toBe(step);
      if (type !== 'DedicatedOnlyModelError' || step === 'listing') expect(found.would).toEqual([]);
    });
  });

  describe('what is served is explained:', () => {
    // By whatever tier the tables above have left it on.
    beforeAll(() => positionOf(at.admin.call('PATCH', '/organisations/acme', { tier: 'Platinum' })));
    test.each(chosen(extent, answers, ([, , step]) => step))('%s', async (_name, wayName, step, asked) => {
      const answer = await ask(ways[wayName], asked());
      expect(answer.status, answer.content).toBe(200);
      const { steps } = await explained(answer);
      expect(steps.find((each) => each.step === step)).toMatchObject({ result: 'ok' });
    });
  });
}

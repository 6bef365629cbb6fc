/**
 * Every type of refusal and every kind of served request, made on the wire of running processes, through both API styles and
 * both kinds of hosts: by its `x-request-id`, `headgate explain` says the same status, type and message, names the event of the
 * log that made it so, and its first command turns the answer when it is run.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type DemoNodeId, demoNodes } from '../../dev/demo-fleet.ts';
import type { DevAdmin } from '../../dev/dev-admin.ts';
import { parseBehaviour } from '../../dev/simulator/behaviour.ts';
import { type SimNode, startSimNode } from '../../dev/simulator/sim-node.ts';
import { type Explanation, explanationSchema } from '../../schemas/explanations.ts';
import { type RefusalType, refusalKinds } from '../../schemas/refusals.ts';
import { type Answer, call, chatBody } from '../support/api.ts';
import { type GatewayProcess, operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { requestText } from '../support/raw-http.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

const fleet = new ProcessFleet({ timeoutMs: 60_000 });
const nodes = {} as Record<DemoNodeId, SimNode>;
let admin: DevAdmin;
let plane: Plane;
let port: number;
let playPort: number;
const keys: Record<string, string> = {};
const fault = (kind = ''): string => join(fleet.dir, `fault${kind}`);
/** While something fails in the gateway: test/support/fault-on-file.mjs. */
async function during<Result>(kind: '.clock' | '.usage', work: () => Promise<Result>): Promise<Result> {
  writeFileSync(fault(kind), '');
  try {
    if (kind === '.usage') await until(() => existsSync(fault('.usage.stalled')), 60_000);
    return await work();
  } finally {
    rmSync(fault(kind));
    await until(() => !existsSync(fault('.usage.stalled')), 60_000);
  }
}
const faulty = new URL('../support/fault-on-file.mjs', import.meta.url).href;

beforeAll(async () => {
  for (const { id, models } of demoNodes)
    nodes[id] = await startSimNode({ models: [...models], tokensPerSecond: 0 });
  plane = await fleet.serve<Plane['ready']>('control-plane', 'plane');
  admin = fleet.admin(plane);
  const urls = Object.fromEntries(Object.entries(nodes).map(([id, { url }]) => [id, url]));
  await admin.apply(specFleet(urls as Record<DemoNodeId, string>));
  await admin.call('PUT', `/stacks/${stacks.heron}/surface`, { surface: 'anthropic' });
  const gateway = await fleet.serve<GatewayProcess['ready'] & { readonly play: string }>(
    'gateway',
    'gateway',
    ['--stack-domain', 'stacks.test', '--play-port', '0'],
    { NODE_OPTIONS: `--import=${faulty}`, HEADGATE_TEST_FAULT: fault() },
  );
  port = Number(new URL(gateway.ready.api).port);
  playPort = Number(new URL(gateway.ready.play).port);
  for (const id of ['acme', 'birch', 'cedar']) keys[id] = (await admin.createKey(id, 'test')).value;
  await until(async () => (await admin.nodes()).every(({ up }) => up), 60_000);
  await settle();
}, 180_000);
afterAll(async () => {
  await fleet.close();
  for (const node of Object.values(nodes)) await node.close();
});

async function settle(): Promise<void> {
  const { complete } = await admin.confirmed(await admin.position(), 30);
  expect(complete).toBe(true);
}

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: plane.ready.admin, HEADGATE_TOKEN: operatorToken } });

/** A way to ask: an API style at a kind of host. */
interface Way {
  readonly organisation: string;
  readonly model: string;
  readonly host: string;
  readonly path: string;
  readonly stack?: string;
  /** Whose drain ends the service. */
  readonly node: string;
  readonly sim: DemoNodeId;
}

const ways = {
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
type WayName = keyof typeof ways;

interface Asked {
  readonly key?: string | undefined;
  readonly more?: object;
  readonly path?: string;
  readonly host?: string;
  /** null: none is sent. */
  readonly body?: unknown;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function ask(way: Way, { key = keys[way.organisation], more, body, headers, ...parts }: Asked = {}) {
  const isMessages = (parts.path ?? way.path).startsWith('/v1/messages');
  const method = parts.method ?? 'POST';
  return call({
    ...{ port, host: way.host, path: way.path, key: key ?? '', ...parts, method },
    headers: { ...(isMessages && { 'anthropic-version': '2023-06-01' }), ...headers },
    ...(method === 'POST' &&
      body !== null && {
        body: body ?? { ...chatBody(way.model, isMessages ? { max_tokens: 9 } : {}), ...more },
      }),
  });
}

/** Begins a stream, and leaves once some of it has come. Gives its request id. */
async function leftStream(way: Way): Promise<string> {
  const isMessages = way.path === '/v1/messages';
  const body = chatBody(way.model, { stream: true, ...(isMessages && { max_tokens: 9 }) });
  const headers = {
    authorization: `Bearer ${keys[way.organisation]}`,
    ...(isMessages && { 'anthropic-version': '2023-06-01' }),
  };
  const text = requestText({
    method: 'POST',
    host: way.host,
    path: way.path,
    headers,
    body: JSON.stringify(body),
  });
  const socket = connect(port, '127.0.0.1', () => socket.write(text));
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
  });
  await until(() => received.includes('data: '), 60_000);
  socket.destroy();
  return /^x-request-id: *(\S+)/im.exec(received)?.[1] ?? '';
}

async function explained(answer: Pick<Answer, 'status' | 'fields' | 'content'>): Promise<Explanation> {
  const run = await cli('explain', '--request', answer.fields['x-request-id'] ?? '', '-o', 'json');
  if (run.out === '') throw new Error(run.err);
  const found = explanationSchema.parse(JSON.parse(run.out));
  const refusal = answer.status === 200 ? undefined : JSON.parse(answer.content).error;
  expect(found.verdict).toEqual(
    refusal === undefined
      ? { served: true, status: 200 }
      : { served: false, status: answer.status, type: refusal.type, message: refusal.message },
  );
  expect([run.code, found.same]).toEqual([refusal === undefined ? 0 : 1, true]);
  return found;
}

const seen = new Set<RefusalType>();
function refused(answer: Answer, type: RefusalType): void {
  expect(JSON.parse(answer.content).error?.type, answer.content).toBe(type);
  expect(answer.status).toBe(refusalKinds[type].status);
  seen.add(type);
}

let made = 0;
/** Puts the organisation of the way on a tier of its own with these limits; gives the position of the tier. */
async function limit({ organisation }: Way, limits: object): Promise<number> {
  const tier = `Limited-${++made}`;
  const set = await admin.call('PUT', `/tiers/${tier}`, { rank: 10 + made, models: '*', ...limits });
  await admin.call('PATCH', `/organisations/${organisation}`, { tier });
  await settle();
  return Number(set['position']);
}

const positionOf = async (answer: Promise<object>): Promise<number> => {
  const { position } = (await answer) as { readonly position?: number };
  await settle();
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

const [chat, stackChat, stackMessages, sharedMessages] = Object.keys(ways) as [
  WayName,
  WayName,
  WayName,
  WayName,
];
const served = [chat, stackChat, stackMessages];
const stackWays = [stackChat, stackMessages];
const own =
  (way: Way, more?: object): Send =>
  (key) =>
    ask(way, { key, ...(more && { more }) });

const turned: readonly Turned[] = [
  {
    ...{ type: 'Unauthorized', name: 'a revoked key', at: served, event: 'key.revoked' },
    arrange: async (way) => {
      const { id, value } = await admin.createKey(way.organisation, 'revoked');
      const position = await positionOf(admin.call('POST', `/keys/${id}/revoke`));
      return { position, send: (key = value) => ask(way, { key }) };
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a suspended organisation', at: served },
    event: 'organisation.suspended',
    arrange: async (way) => {
      const path = `/organisations/${way.organisation}`;
      return { position: await positionOf(admin.call('PATCH', path, { suspended: true })), send: own(way) };
    },
  },
  {
    ...{ type: 'ModelNotInPlanError', name: 'a tier without the model', at: [chat], event: 'tier.set' },
    arrange: async (way) => ({ position: await limit(way, { models: ['echo-idle'] }), send: own(way) }),
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
      position: await positionOf(admin.call('POST', `/nodes/${way.node}/drain`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a drained stack', at: stackWays, event: 'node.drained' },
    arrange: async (way) => ({
      position: await positionOf(admin.call('POST', `/nodes/${way.node}/drain`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'TargetNotServingError', name: 'a model that was uninstalled', at: stackWays },
    event: 'stack.model_uninstalled',
    arrange: async (way) => ({
      position: await positionOf(admin.call('DELETE', `/stacks/${way.stack}/models/${way.model}`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'DedicatedOnlyModelError', name: 'a model taken from the pool', at: [chat] },
    event: 'pool.model_uninstalled',
    arrange: async (way) => ({
      position: await positionOf(admin.call('DELETE', `/pool/models/${way.model}`)),
      send: own(way),
    }),
  },
  {
    ...{ type: 'UnsupportedShapeError', name: 'a stack of the other style', at: stackWays },
    event: 'stack.surface_set',
    arrange: async (way) => {
      const surface = way.path === '/v1/messages' ? 'openai' : 'anthropic';
      return {
        position: await positionOf(admin.call('PUT', `/stacks/${way.stack}/surface`, { surface })),
        send: own(way),
      };
    },
  },
];

describe('what the state refuses is explained by its event, and the first command turns it:', () => {
  const each = turned.flatMap((one) => one.at.map((way) => [one.type, one.name, way, one] as const));
  test.each(each)('%s, %s, %s', async (type, _name, wayName, { arrange, event }) => {
    const way: Way = ways[wayName];
    const { position, send } = await arrange(way);
    const answer = await send();
    refused(answer, type);
    const found = await explained(answer);
    const because = found.steps.find(({ step }) => step === found.decisive)?.because;
    expect(because).toMatchObject({ type: event, position });
    const { events } = await admin.call('GET', `/events/${position}`);
    expect((events as { type: string }[]).map((one) => one.type)).toContain(event);
    const [first = ''] = found.would;
    const run = await cli(...first.split(' ').slice(1), '--yes');
    expect(run.err + run.out, first).not.toContain('error[');
    await settle();
    const again = await send(type === 'Unauthorized' ? run.out.trim() : undefined);
    expect(again.status, `${first}: ${again.content}`).toBe(200);
    await explained(again);
  });
});

describe('what is refused for its own sake is explained by its step:', () => {
  const noModel = { method: 'GET', path: '/v1/models/none' };
  const huge = { 'content-type': 'application/json', 'content-length': String(33 * 1024 * 1024) };
  const refusals: readonly (readonly [
    RefusalType,
    string,
    readonly WayName[],
    string,
    (way: Way) => Asked,
  ])[] = [
    ['Unauthorized', 'no key', [chat, stackChat, stackMessages, sharedMessages], 'key', () => ({ key: '' })],
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
      () => ({ key: 'hg_1', headers: { 'x-api-key': keys['birch'] ?? '' } }),
    ],
    ['DedicatedOnlyModelError', 'no such model in the list', [chat], 'listing', () => noModel],
    ['TargetNotServingError', 'no such model in the list', stackWays, 'listing', () => noModel],
    [
      'DedicatedOnlyModelError',
      'a model nobody knows',
      [chat],
      'pool',
      (way) => ({
        body: chatBody('no-such-model'),
        key: keys[way.organisation],
      }),
    ],
    ['TargetNotServingError', 'a foreign stack', [chat], 'stack', () => ({ host: stackHost('otter') })],
    ['TargetNotServingError', 'a missing stack', [chat], 'stack', () => ({ host: stackHost('missing') })],
    [
      'TargetNotServingError',
      'a foreign listing',
      [chat],
      'listing',
      () => ({
        ...{ host: stackHost('otter'), method: 'GET', path: '/v1/models' },
      }),
    ],
  ];
  const each = refusals.flatMap(([type, name, at, step, asked]) =>
    at.map((way) => [type, name, way, step, asked] as const),
  );
  test.each(each)('%s, %s, %s', async (type, _name, wayName, step, asked) => {
    const answer = await ask(ways[wayName], asked(ways[wayName]));
    refused(answer, type);
    const { steps, would } = await explained(answer);
    const first = steps.find(({ result, step: name }) => result === 'refused' && name !== 'own nodes');
    expect(first?.step).toBe(step);
    if (type !== 'DedicatedOnlyModelError' || step === 'listing') expect(would).toEqual([]);
  });

  test.each(served)('a node that fails, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const sim = nodes[way.sim];
    const down = { match: { path: way.path }, fault: { kind: 'refuse' } };
    sim.setBehaviour(parseBehaviour({ rules: [down, { fault: { kind: 'refuse' } }] }));
    try {
      const answer = await ask(way);
      refused(answer, way.stack === undefined ? 'InferenceUnavailableError' : 'TargetNotServingError');
      const { steps } = await explained(answer);
      expect(steps.at(-1)).toMatchObject({ step: 'answer', result: 'refused' });
    } finally {
      sim.setBehaviour(parseBehaviour({}));
    }
    await until(async () => (await ask(way)).status === 200, 60_000);
  });

  test.each(served)('InternalError, a fault of the gateway, %s', async (wayName) => {
    writeFileSync(fault(), '');
    const answer = await ask(ways[wayName]).finally(() => rmSync(fault()));
    refused(answer, 'InternalError');
    const { steps, would } = await explained(answer);
    expect(steps.at(-1)).toMatchObject({ step: 'answer', result: 'refused' });
    expect(steps.at(-1)?.text).toBe('the gateway failed to handle it');
    expect(would).toEqual([]);
  });
});

describe('what the gateway cannot do is explained by its step:', () => {
  const refusedStep = ({ steps }: Explanation): string | undefined =>
    steps.find(({ result, step }) => result === 'refused' && step !== 'own nodes')?.step;
  const isServed = (way: Way): Promise<unknown> => until(async () => (await ask(way)).status === 200, 60_000);

  test.each(served)('a state that is too old, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const answers = await during(
      '.clock',
      async () => [await ask(way), await ask(way, { key: '' })] as const,
    );
    for (const [answer, type] of [
      [answers[0], 'InferenceUnavailableError'],
      [answers[1], 'Unauthorized'],
    ] as const) {
      refused(answer, type);
      const found = await explained(answer);
      expect([refusedStep(found), found.would]).toEqual(['fresh', []]);
    }
    await isServed(way);
  });

  test('usage that cannot be kept, at each host', async () => {
    for (const way of served) await isServed(ways[way]);
    const answers = await during('.usage', async () => {
      // Its row waits for the thread, and after some time the next requests are refused.
      expect((await ask(ways[chat])).status).toBe(200);
      await until(async () => (await ask(ways[chat])).status !== 200, 60_000);
      return Promise.all(served.map((way) => ask(ways[way])));
    });
    for (const answer of answers) {
      refused(answer, 'InferenceUnavailableError');
      const found = await explained(answer);
      expect([refusedStep(found), found.would]).toEqual(['usage', []]);
    }
    for (const way of served) await isServed(ways[way]);
  });

  test('usage that is not known', async () => {
    const organisation = 'unknown-so-far';
    await admin.call('POST', '/organisations', { id: organisation, name: organisation, tier: 'Starter' });
    const { value: key } = await admin.createKey(organisation, 'test');
    await settle();
    const way = ways[chat];
    const answer = await during('.usage', () => ask(way, { key }));
    refused(answer, 'InferenceUnavailableError');
    const found = await explained(answer);
    expect([refusedStep(found), found.would]).toEqual(['usage', []]);
    await until(async () => (await ask(way, { key })).status === 200, 60_000);
  });
});

describe('a stream that ends early was served, and its record says who ended it:', () => {
  const ended = async (id: string, outcome: string): Promise<void> => {
    const path = `/decisions/${id}`;
    await until(async () => (await admin.call('GET', path).catch(() => undefined)) !== undefined, 60_000);
    expect((await admin.call('GET', path))['decision']).toMatchObject({ served: true, outcome });
    await explained({ status: 200, fields: { 'x-request-id': id }, content: '' });
  };
  /** Whatever API the gateway speaks to the node. */
  const streaming = async <Result>(way: Way, fault: object, work: () => Promise<Result>): Promise<Result> => {
    const paths = ['/v1/chat/completions', '/v1/messages'];
    const rules = paths.map((path) => ({ match: { path }, fault: { ...fault, afterEvents: 3 } }));
    nodes[way.sim].setBehaviour(parseBehaviour({ rules }));
    return work().finally(() => nodes[way.sim].setBehaviour(parseBehaviour({})));
  };

  test.each(served)('the client, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const id = await streaming(way, { kind: 'stall-after' }, () => leftStream(way));
    await ended(id, 'ended by client');
  });

  test.each(served)('the node, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const answer = await streaming(way, { kind: 'cut' }, () => ask(way, { more: { stream: true } }));
    expect(answer.status, answer.content).toBe(200);
    await ended(answer.fields['x-request-id'] ?? '', 'ended by node');
  });
});

describe('what is served is explained:', () => {
  const list = { method: 'GET', path: '/v1/models' };
  const embed = { path: '/v1/embeddings', body: { model: 'echo-embed', input: 'a' } };
  const answers: readonly (readonly [string, WayName, string, Asked])[] = [
    ['chat from the pool', chat, 'nodes', {}],
    ['a stream from the pool', chat, 'nodes', { more: { stream: true } }],
    ['chat from a stack', stackChat, 'nodes', {}],
    ['a stream from a stack', stackChat, 'nodes', { more: { stream: true } }],
    ['messages from a stack', stackMessages, 'nodes', {}],
    ['a stream of messages', stackMessages, 'nodes', { more: { stream: true } }],
    [
      'counted tokens',
      stackMessages,
      'nodes',
      { path: '/v1/messages/count_tokens', body: chatBody('echo-small') },
    ],
    ['embeddings from a stack', stackChat, 'nodes', embed],
    ['a public list', chat, 'listing', { ...list, key: '' }],
    ['a list of a stack', stackChat, 'listing', list],
    ['a model', chat, 'listing', { ...list, path: '/v1/models/echo-large' }],
  ];
  test.each(answers)('%s', async (_name, wayName, step, asked) => {
    const answer = await ask(ways[wayName], asked);
    expect(answer.status, answer.content).toBe(200);
    const { steps } = await explained(answer);
    expect(steps.find((each) => each.step === step)).toMatchObject({ result: 'ok' });
  });

  test('chat from an own node, embeddings from the pool', async () => {
    await admin.call('PATCH', '/organisations/acme', { tier: 'Platinum' });
    await settle();
    const own = await ask({ ...ways[chat], organisation: 'acme' });
    const { steps } = await explained(own);
    expect(steps.find(({ step }) => step === 'own nodes')).toMatchObject({ result: 'ok' });
    const pooled = await ask({ ...ways[chat], organisation: 'acme' }, embed);
    expect(pooled.status, pooled.content).toBe(200);
    await explained(pooled);
  });
});

describe('what a visitor of the playground asks is explained by the x-request-id of the answer:', () => {
  const chatPath = '/api/chat';
  const turn = (model: string, more: object = {}) => chatBody(model, { stream: true, ...more });
  interface Played {
    readonly cookie?: string | undefined;
    readonly key?: string;
    readonly path?: string;
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  }
  const play = ({ cookie, key, path = chatPath, body = turn('echo-small'), headers }: Played) => {
    const host = `127.0.0.1:${playPort}`;
    return call({
      ...{ port: playPort, host, method: 'POST', path, body, ...(key !== undefined && { key }) },
      headers: {
        ...{ origin: `http://${host}`, 'content-type': 'application/json' },
        ...(cookie !== undefined && { cookie: `__Host-headgate-visitor-${playPort}=${cookie}` }),
        ...headers,
      },
    });
  };
  async function newVisitor(): Promise<string> {
    const { status, fields, content } = await play({ path: '/api/visitor', body: {} });
    expect(status, content).toBe(200);
    return /=([^;]+)/.exec(fields['set-cookie'] ?? '')?.[1] ?? '';
  }
  const anonymous = { freeTurns: 10, models: ['echo-small'] };
  const limited = (more: object) => positionOf(admin.call('PUT', '/anonymous', { ...anonymous, ...more }));
  let visitor: string;
  let other: string;
  beforeAll(async () => {
    [visitor, other] = [await newVisitor(), await newVisitor()];
  });

  const answered: readonly (readonly [string, () => Played])[] = [
    ['a turn', () => ({ cookie: visitor })],
    ['a turn with a key', () => ({ key: keys['cedar'] ?? '' })],
    [
      'a turn at a stack',
      () => ({
        key: keys['acme'] ?? '',
        path: `/api/stacks/${stacks.otter}/chat`,
        body: chatBody('echo-large'),
      }),
    ],
  ];
  test.each(answered)('%s', async (_name, asked) => {
    const answer = await play(asked());
    expect(answer.status, answer.content).toBe(200);
    const { steps } = await explained(answer);
    expect(steps.find(({ step }) => step === 'nodes')).toMatchObject({ result: 'ok' });
  });

  test('a node that fails', async () => {
    const sim = nodes['pool-1'];
    sim.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'refuse' } }] }));
    const answer = await play({ cookie: visitor }).finally(() => sim.setBehaviour(parseBehaviour({})));
    refused(answer, 'InferenceUnavailableError');
    const { steps, would } = await explained(answer);
    expect(steps.at(-1)).toMatchObject({ step: 'answer', result: 'refused' });
    expect(would).toEqual([]);
    await until(async () => (await play({ cookie: visitor })).status === 200, 60_000);
  });

  const itself: readonly (readonly [RefusalType, string, string, () => Played])[] = [
    ['Unauthorized', 'no cookie', 'http', () => ({})],
    ['Unauthorized', 'a cookie of nobody', 'http', () => ({ cookie: 'none' })],
    [
      'Unauthorized',
      'a visitor at a stack',
      'http',
      () => ({ cookie: visitor, path: `/api/stacks/${stacks.otter}/chat` }),
    ],
    ['Unauthorized', 'an unknown key', 'key', () => ({ key: 'hg_0' })],
    [
      'Unauthorized',
      'what an unknown key may use',
      'http',
      () => ({ key: 'hg_0', path: '/api/key', body: {} }),
    ],
    ['NotFoundError', 'no such call', 'http', () => ({ path: '/api/none' })],
    [
      'UnsupportedShapeError',
      'a turn that is not streamed',
      'shape',
      () => ({ cookie: visitor, body: chatBody('echo-small') }),
    ],
    ['UnsupportedShapeError', 'no turn of the page', 'shape', () => ({ cookie: visitor, body: {} })],
    [
      'PayloadTooLargeError',
      'a long turn',
      'shape',
      () => ({ cookie: visitor, body: chatBody('echo-small', { system: 'a'.repeat(20_000) }) }),
    ],
    ['PayloadTooLargeError', 'large headers', 'http', () => ({ headers: { a: 'a'.repeat(20_000) } })],
    [
      'DedicatedOnlyModelError',
      'a model that nobody knows',
      'pool',
      () => ({ cookie: visitor, body: turn('none') }),
    ],
  ];
  test.each(itself)('%s, %s', async (type, _name, step, asked) => {
    const answer = await play(asked());
    refused(answer, type);
    const { steps, would, assumptions } = await explained(answer);
    expect(steps.find(({ result, step: name }) => result === 'refused' && name !== 'own nodes')?.step).toBe(
      step,
    );
    if (step !== 'http') return;
    expect(would).toEqual([]);
    expect(assumptions.join()).toContain('refused before it was read');
  });

  type Limited = readonly [RefusalType, step: string, limits: object, who: () => string];
  const byLimit: readonly Limited[] = [
    ['ContextWindowExceededError', 'context', { contextTokens: 4 }, () => visitor],
    ['InferenceUpsellError', 'allowance', { freeTurns: 1 }, () => visitor],
    ['InferenceUpsellError', 'network allowance', { freeTurns: 1, networkFactor: 1 }, () => other],
    ['InferenceUpsellError', 'visitor tokens', { total: { tokensPerDay: 1 } }, () => visitor],
    ['InferenceRateLimitedError', 'requests', { requestsPerMinute: 0 }, () => visitor],
    ['InferenceRateLimitedError', 'visitor requests', { total: { requestsPerMinute: 0 } }, () => visitor],
    ['InferenceConcurrencyLimitedError', 'concurrency', { concurrency: 0 }, () => visitor],
    ['InferenceConcurrencyLimitedError', 'visitor concurrency', { total: { concurrency: 0 } }, () => visitor],
    ['ModelNotInPlanError', 'tier', { models: ['echo-idle'] }, () => visitor],
  ];
  test.each(byLimit)('%s, by %s, and the first command turns it', async (type, step, limits, who) => {
    const position = await limited(limits);
    const ask = () => play({ cookie: who(), body: turn('echo-small', { max_tokens: 50 }) });
    const answer = await ask();
    refused(answer, type);
    const found = await explained(answer);
    expect(found.decisive).toBe(step);
    const because = found.steps.find((one) => one.step === step)?.because;
    expect(because).toMatchObject({ type: 'anonymous.set', position });
    const [first = ''] = found.would;
    const run = await cli(...first.split(' ').slice(1), '--yes');
    expect(run.err + run.out, first).not.toContain('error[');
    await settle();
    const again = await ask();
    expect(again.status, `${first}: ${again.content}`).toBe(200);
    await explained(again);
    await limited({});
  });
});

describe('a request that was not made finds what is in use now:', () => {
  const what = ['explain', '--org', 'birch', '--model', 'echo-small', '-o', 'json'];
  const asked = async (): Promise<Explanation> =>
    explanationSchema.parse(JSON.parse((await cli(...what)).out));
  const limitedTo = (limits: object) => limit({ ...ways[chat], organisation: 'birch' }, limits);

  test('requests of the minute, and how old the reports are', async () => {
    await limitedTo({ requestsPerMinute: 1 });
    const send = () => ask({ ...ways[chat], organisation: 'birch' });
    let found: Explanation | undefined;
    await until(async () => {
      // Again in the next minute, where one has begun meanwhile.
      await send();
      found = await asked();
      return !found.verdict.served;
    }, 60_000);
    expect(found?.verdict).toMatchObject({ status: 429, type: 'InferenceRateLimitedError' });
    expect(found?.steps.find(({ step }) => step === 'requests')).toMatchObject({
      result: 'refused',
      text: '1 in this minute, of 1',
    });
    expect(found?.assumptions.join()).toMatch(/as gateways published them, the oldest \d+\.\d s ago/);
    expect(found?.would.length).toBeGreaterThan(0);
  });

  test('requests in flight, until they end', async () => {
    await limitedTo({ concurrency: 1 });
    const sim = nodes['pool-1'];
    sim.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'stall' } }] }));
    const client = new AbortController();
    const inFlight = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys['birch']}`, 'content-type': 'application/json' },
      body: JSON.stringify(chatBody('echo-small')),
      signal: client.signal,
    }).catch(() => undefined);
    await until(async () => (await asked()).verdict.type === 'InferenceConcurrencyLimitedError', 60_000);
    const { items } = JSON.parse((await cli('explain', '--org', 'birch', '--list', '-o', 'json')).out) as {
      items: { model: string; host: string; status: number }[];
    };
    expect(items.find(({ model, host }) => model === 'echo-small' && host === 'shared')?.status).toBe(429);
    sim.setBehaviour(parseBehaviour({}));
    client.abort();
    await inFlight;
    await until(async () => (await asked()).verdict.served, 60_000);
  });
});

test('every type of refusal was made', () => {
  expect([...seen].sort()).toEqual(Object.keys(refusalKinds).sort());
});

describe('all that was recorded is decided again by a build:', () => {
  interface Printed {
    readonly req: string;
    readonly step: string;
  }
  const recorded = async (): Promise<{ path: string; lines: { req: string; reason?: string }[] }> => {
    const { out, code } = await cli('decisions', 'export', '--since', '1h');
    expect(code).toBe(0);
    const path = join(fleet.dir, 'decisions.jsonl');
    writeFileSync(path, out);
    return {
      path,
      lines: out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    };
  };

  test('this build decides the same', async () => {
    const { path, lines } = await recorded();
    expect(lines.length).toBeGreaterThan(80);
    const run = await fleet.cli(['replay', 'decide', '--requests', path, '-o', 'json']);
    expect(JSON.parse(run.stdout)).toEqual({ decided: lines.length, differ: 0, outside: 0 });
    expect(run.code).toBe(0);
  });

  test('a build with another rule prints exactly the decisions that the rule touches', async () => {
    const { path, lines } = await recorded();
    const built = join(fleet.dir, 'changed');
    const dist = join(import.meta.dirname, '../../dist');
    for (const part of readdirSync(dist).filter((name) => !['bench', 'console', 'test'].includes(name)))
      cpSync(join(dist, part), join(built, 'dist', part), { recursive: true });
    for (const name of ['node_modules', 'package.json'])
      symlinkSync(join(dist, '..', name), join(built, name));
    const rule = join(built, 'dist/shared/decision/authenticate.js');
    const source = readFileSync(rule, 'utf8');
    expect(source.split('if (owner.revoked)')).toHaveLength(2);
    writeFileSync(rule, source.replace('if (owner.revoked)', 'if (false)'));
    const argv = [join(built, 'dist/cli/headgate.js'), 'replay', 'decide', '--requests', path, '-o', 'json'];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, {
      env: { ...process.env, ...fleet.env, HEADGATE_LOG_LEVEL: 'fatal' },
      encoding: 'utf8',
    });
    const printed = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Printed);
    const touched = lines.filter(({ reason }) => reason === 'revoked').map(({ req }) => req);
    expect(touched.length).toBeGreaterThanOrEqual(3);
    expect(printed.at(-1), stderr).toMatchObject({ decided: lines.length, differ: touched.length });
    expect(
      printed
        .slice(0, -1)
        .map(({ req }) => req)
        .sort(),
    ).toEqual(touched.sort());
    expect(new Set(printed.slice(0, -1).map(({ step }) => step))).toEqual(new Set(['key']));
    expect(status).toBe(1);
  });
});

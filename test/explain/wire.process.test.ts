/**
 * Tests explanations on running processes: one refusal of each type, and cases that need a process, such as its own failures,
 * streams that end early, visitors, and permission to read decisions. golden.test.ts explains every cause of a refusal.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import { type DemoNodeId, demoNodes } from '../../tools/dev/demo-fleet.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { call, chatBody } from '../support/api.ts';
import {
  type GatewayProcess,
  gatewayToken,
  operatorToken,
  type Plane,
  ProcessFleet,
} from '../support/process-fleet.ts';
import { requestText } from '../support/raw-http.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet, stacks } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import {
  ask,
  becauseOf,
  explained,
  positionOf,
  proveWays,
  refused,
  refusedStep,
  runFirst,
  seen,
  useScene,
  type Way,
  wayNames,
  ways,
} from './ways.ts';

const fleet = new ProcessFleet({ timeoutMs: 60_000 });
const nodes = {} as Record<DemoNodeId, FaultyNode>;
let admin: DevAdmin;
let plane: Plane;
let port: number;
let playPort: number;
let metrics: string;
const keys: Record<string, string> = {};
const chat = ways['chat at the shared host'];
const fault = (kind = ''): string => join(fleet.dir, `fault${kind}`);
/** Runs `work` while a fault is active in the gateway (test/support/fault-on-file.mjs). */
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
    nodes[id] = await startFaultyNode({ models: [...models], tokensPerSecond: 0 });
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
  metrics = gateway.ready.metrics;
  playPort = Number(new URL(gateway.ready.play).port);
  for (const id of ['acme', 'birch', 'cedar']) keys[id] = (await admin.createKey(id, 'test')).value;
  await until(async () => (await admin.nodes()).every(({ up }) => up), 60_000);
  await settle();
  useScene({ admin, port, keys, cli, settle });
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

/** Starts a stream, disconnects once part of it has arrived, and returns the request id. */
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

proveWays();

describe('a failure while answering is explained by the last step:', () => {
  test.each(wayNames)('the node fails, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const sim = nodes[way.node];
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

  test.each(wayNames)('the gateway has an InternalError, %s', async (wayName) => {
    writeFileSync(fault(), '');
    const answer = await ask(ways[wayName]).finally(() => rmSync(fault()));
    refused(answer, 'InternalError');
    const { steps, would } = await explained(answer);
    expect(steps.at(-1)).toMatchObject({ step: 'answer', result: 'refused' });
    expect(steps.at(-1)?.text).toBe('the gateway failed to handle the request');
    expect(would).toEqual([]);
  });
});

describe('what the gateway cannot do is explained by its step:', () => {
  // Earlier tests have used up the organisation's allowance.
  beforeAll(() => positionOf(admin.call('PATCH', '/organisations/cedar', { tier: 'Platinum' })));
  const isServed = (way: Way): Promise<unknown> => until(async () => (await ask(way)).status === 200, 60_000);

  test('its state is too old, for each host', async () => {
    const answers = await during('.clock', () =>
      Promise.all(
        wayNames.flatMap((way) => [
          ask(ways[way]).then((answer) => [answer, 'InferenceUnavailableError'] as const),
          ask(ways[way], { key: null }).then((answer) => [answer, 'Unauthorized'] as const),
        ]),
      ),
    );
    for (const [answer, type] of answers) {
      refused(answer, type);
      const found = await explained(answer);
      expect([refusedStep(found), found.would]).toEqual(['fresh', []]);
    }
    for (const way of wayNames) await isServed(ways[way]);
  });

  test('it cannot store usage, for each host', async () => {
    for (const way of wayNames) await isServed(ways[way]);
    const answers = await during('.usage', async () => {
      // The usage row waits for the stalled thread. After some time, further requests are refused for this reason.
      expect((await ask(chat)).status).toBe(200);
      await until(async () => (await ask(chat)).status !== 200, 60_000);
      return Promise.all(wayNames.map((way) => ask(ways[way])));
    });
    for (const answer of answers) {
      refused(answer, 'InferenceUnavailableError');
      const found = await explained(answer);
      expect([refusedStep(found), found.would]).toEqual(['usage', []]);
    }
    for (const way of wayNames) await isServed(ways[way]);
  });

  test('it does not know the usage', async () => {
    const organisation = 'unknown-so-far';
    await admin.call('POST', '/organisations', { id: organisation, name: organisation, tier: 'Starter' });
    const { value: key } = await admin.createKey(organisation, 'test');
    await settle();
    const answer = await during('.usage', () => ask(chat, { key }));
    refused(answer, 'InferenceUnavailableError');
    const found = await explained(answer);
    expect([refusedStep(found), found.would]).toEqual(['usage', []]);
    await until(async () => (await ask(chat, { key })).status === 200, 60_000);
  });
});

describe('the record of a stream that ends early shows who ended it, and not that it was served:', () => {
  const ended = async (id: string, outcome: string): Promise<void> => {
    const path = `/decisions/${id}`;
    await until(async () => (await admin.call('GET', path).catch(() => undefined)) !== undefined, 60_000);
    expect((await admin.call('GET', path))['decision']).toMatchObject({ served: false, outcome });
  };
  /** Applies the fault to both APIs, so that it does not matter which of them the gateway uses to call the node. */
  const streaming = async <Result>(way: Way, fault: object, work: () => Promise<Result>): Promise<Result> => {
    const paths = ['/v1/chat/completions', '/v1/messages'];
    const rules = paths.map((path) => ({ match: { path }, fault: { ...fault, afterEvents: 3 } }));
    nodes[way.node].setBehaviour(parseBehaviour({ rules }));
    return work().finally(() => nodes[way.node].setBehaviour(parseBehaviour({})));
  };

  test.each(wayNames)('the client, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const id = await streaming(way, { kind: 'stall-after' }, () => leftStream(way));
    await ended(id, 'ended by client');
  });

  test.each(wayNames)('the node, %s', async (wayName) => {
    const way: Way = ways[wayName];
    const answer = await streaming(way, { kind: 'cut' }, () => ask(way, { more: { stream: true } }));
    expect(answer.status, answer.content).toBe(200);
    await ended(answer.fields['x-request-id'] ?? '', 'ended by node');
  });
});

describe('a playground visitor’s request is explained by its x-request-id:', () => {
  const chatPath = '/api/chat';
  const turn = (model: string, more: object = {}) => chatBody(model, { stream: true, ...more });
  interface PlayCall {
    readonly cookie?: string | undefined;
    readonly key?: string;
    readonly path?: string;
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  }
  const play = ({ cookie, key, path = chatPath, body = turn('echo-small'), headers }: PlayCall) => {
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
  const limited = (more: object) =>
    positionOf(admin.call('PUT', '/anonymous?force=true', { ...anonymous, ...more }));
  let visitor: string;
  let other: string;
  beforeAll(async () => {
    [visitor, other] = [await newVisitor(), await newVisitor()];
  });

  const answered: readonly (readonly [string, () => PlayCall])[] = [
    ['a turn', () => ({ cookie: visitor })],
    ['a turn with a key', () => ({ key: keys['cedar'] ?? '' })],
    [
      'a turn on a stack',
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

  test('the node fails', async () => {
    const sim = nodes['pool-1'];
    sim.setBehaviour(parseBehaviour({ rules: [{ fault: { kind: 'refuse' } }] }));
    const answer = await play({ cookie: visitor }).finally(() => sim.setBehaviour(parseBehaviour({})));
    refused(answer, 'InferenceUnavailableError');
    const { steps, would } = await explained(answer);
    expect(steps.at(-1)).toMatchObject({ step: 'answer', result: 'refused' });
    expect(would).toEqual([]);
    await until(async () => (await play({ cookie: visitor })).status === 200, 60_000);
  });

  const itself: readonly (readonly [RefusalType, string, string, () => PlayCall])[] = [
    ['Unauthorized', 'no cookie', 'http', () => ({})],
    ['Unauthorized', 'an unknown cookie', 'http', () => ({ cookie: 'none' })],
    [
      'Unauthorized',
      'a visitor on a stack',
      'http',
      () => ({ cookie: visitor, path: `/api/stacks/${stacks.otter}/chat` }),
    ],
    ['Unauthorized', 'an unknown key', 'key', () => ({ key: 'hg_0' })],
    ['Unauthorized', 'an unknown key’s calls', 'http', () => ({ key: 'hg_0', path: '/api/key', body: {} })],
    ['NotFoundError', 'no such call', 'http', () => ({ path: '/api/none' })],
    [
      'UnsupportedShapeError',
      'a turn without streaming',
      'shape',
      () => ({ cookie: visitor, body: chatBody('echo-small') }),
    ],
    [
      'UnsupportedShapeError',
      'a turn the page does not send',
      'shape',
      () => ({ cookie: visitor, body: {} }),
    ],
    [
      'PayloadTooLargeError',
      'a long turn',
      'shape',
      () => ({ cookie: visitor, body: chatBody('echo-small', { system: 'a'.repeat(20_000) }) }),
    ],
    ['PayloadTooLargeError', 'large headers', 'http', () => ({ headers: { a: 'a'.repeat(20_000) } })],
    ['DedicatedOnlyModelError', 'an unknown model', 'pool', () => ({ cookie: visitor, body: turn('none') })],
  ];
  test.each(itself)('%s for %s', async (type, _name, step, asked) => {
    const answer = await play(asked());
    refused(answer, type);
    const found = await explained(answer);
    expect(refusedStep(found)).toBe(step);
    if (step !== 'http') return;
    expect(found.would).toEqual([]);
    expect(found.assumptions.join()).toContain('refused before it was read');
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
  test.each(byLimit)('%s by %s, and the first command changes it', async (type, step, limits, who) => {
    const position = await limited(limits);
    const send = () => play({ cookie: who(), body: turn('echo-small', { max_tokens: 50 }) });
    const answer = await send();
    refused(answer, type);
    const found = await explained(answer);
    expect(found.decisive).toBe(step);
    expect(becauseOf(found)).toMatchObject({ type: 'anonymous.set', position });
    await runFirst(found);
    const again = await send();
    expect(again.status, `${found.would[0]}: ${again.content}`).toBe(200);
    await explained(again);
    await limited({});
  });
});

test('a gateway’s decisions are read with the gateway token, and a control plane’s with the operator token', async () => {
  const status = async (url: string, token: string): Promise<number> => {
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    await answer.text();
    return answer.status;
  };
  const since = `/decisions?since=${Date.now() - 1000}`;
  const [own, plain] = [new URL(since, metrics).href, `${plane.ready.admin}/admin/v1${since}`];
  expect([await status(own, gatewayToken), await status(own, operatorToken)]).toEqual([200, 401]);
  expect([await status(plain, operatorToken), await status(plain, gatewayToken)]).toEqual([200, 401]);
});

test('every type of refusal occurred', () => {
  expect([...seen].sort()).toEqual(Object.keys(refusalKinds).sort());
});

describe('a build decides all records again:', () => {
  interface PrintedDecision {
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

  test('this build decides them alike', async () => {
    const { path, lines } = await recorded();
    expect(lines.length).toBeGreaterThan(40);
    const run = await fleet.cli(['replay', 'decide', '--requests', path, '-o', 'json']);
    expect(JSON.parse(run.stdout)).toEqual({ decided: lines.length, differ: 0, outside: 0 });
    expect(run.code).toBe(0);
  });

  test('a build with one changed rule prints exactly the decisions that the rule affects', async () => {
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
      .map((line) => JSON.parse(line) as PrintedDecision);
    const touched = lines.filter(({ reason }) => reason === 'revoked').map(({ req }) => req);
    expect(touched.length).toBeGreaterThanOrEqual(1);
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

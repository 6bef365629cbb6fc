// Tests that an agent can report only on the node that its token belongs to, and that everything else is refused, bounded,
// and logged without a secret. Uses one control plane on an embedded log, and sockets that send what no real agent would
// send.

import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { nodeConnectPath, nodeFrameBytesMax } from '../../schemas/records/node-messages.ts';
import { checkAnswer } from '../../test/support/admin-answers.ts';
import { operatorToken, planeSettings } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { urlOf } from '../../test/support/listen.ts';
import { until } from '../../test/support/until.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type ControlPlane, startControlPlane } from '../main.ts';

const dir = folderOfFile('node-routes');
let controlPlane: ControlPlane;
let admin: DevAdmin;
let logged = '';
const tokens: string[] = [];

beforeAll(async () => {
  const lines = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      logged += chunk.toString();
      done();
    },
  });
  controlPlane = await startControlPlane({
    ...planeSettings(dir, `sqlite:${join(dir, 'log')}`),
    nodeIntervals: { agentSilenceMsMax: 1000, scanMs: 20, probeMs: 20 },
    logger: pino({ level: 'trace' }, lines),
  });
  admin = new DevAdmin(controlPlane.admin, operatorToken);
  const models = ['m', ...Array.from({ length: 15 }, (_, n) => `m-${n}`)];
  await admin.apply({ version: 1, models: models.map((id) => ({ id, family: 'm', weight: 1 })) });
});
afterAll(async () => {
  await controlPlane.close();
});

async function node(id: string, agent = true): Promise<{ id: string; token: string; tokenId: string }> {
  const url = 'http://127.0.0.1:9';
  await admin.call('POST', '/nodes', { id, place: { kind: 'pool' }, url, dialect: 'vllm', agent });
  const { id: tokenId, value: token } = await admin.createNodeToken(id);
  tokens.push(token);
  return { id, token, tokenId };
}

const idOf = (data: unknown): unknown => (data as { id?: unknown }).id;

const listed = async (id: string): Promise<LiveNodeResource> => {
  const answer = await admin.call('GET', `/nodes/${id}`);
  checkAnswer('GET', `/nodes/${id}`, 200, answer);
  return answer;
};

interface OpenSocket {
  readonly socket: WebSocket;
  readonly frames: unknown[];
  readonly closed: Promise<{ code: number; reason: string }>;
}

/** Opens an agent's socket. Rejects with the status and body if the upgrade is refused. */
function open(token: string | undefined, headers: Record<string, string> = {}): Promise<OpenSocket> {
  const url = controlPlane.admin.replace('http', 'ws') + nodeConnectPath;
  const socket = new WebSocket(url, {
    headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers },
  });
  const frames: unknown[] = [];
  socket.on('message', (data) => frames.push(JSON.parse(String(data))));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
  });
  return new Promise((resolve, reject) => {
    socket.on('open', () => resolve({ socket, frames, closed }));
    socket.on('error', () => undefined);
    socket.on('unexpected-response', (_request, response) => {
      let body = '';
      response.on('data', (chunk) => {
        body += String(chunk);
      });
      response.on('end', () => reject({ status: response.statusCode, body }));
    });
  });
}

const hello = (id: string): string => JSON.stringify({ type: 'hello', v: 1, node: id });
const heartbeat = (more: object = {}): string =>
  JSON.stringify({ type: 'beat', up: true, dialect: 'vllm', models: ['m'], ...more });

test('no token, a wrong one, a revoked one and the operator’s are refused identically, before any upgrade', async () => {
  const { tokenId, token } = await node('revoked-before');
  await admin.call('POST', `/tokens/${tokenId}/revoke`);
  const refusals = await Promise.all(
    [undefined, 'ngt_wrong', token, operatorToken, 'x'.repeat(5000)].map((text) =>
      open(text).catch((refusal: unknown) => refusal),
    ),
  );
  expect(refusals[0]).toMatchObject({ status: 401 });
  for (const refusal of refusals) expect(refusal).toEqual(refusals[0]);
});

test('a request with an Origin is refused even with a valid token', async () => {
  const { token } = await node('origin');
  for (const origin of ['https://example.org', 'null', controlPlane.admin])
    await expect(open(token, { origin })).rejects.toMatchObject({ status: 403 });
});

test('plain HTTP requests and nodes registered without an agent are refused', async () => {
  const { token } = await node('plain');
  const plain = await fetch(controlPlane.admin + nodeConnectPath, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(plain.status).toBe(400);
  const bare = await node('bare', false);
  await expect(open(bare.token)).rejects.toMatchObject({ status: 409 });
});

test('a token is valid only for its own node', async () => {
  const own = await node('own');
  await node('other');
  const { socket, closed } = await open(own.token);
  socket.send(hello('other'));
  socket.send(heartbeat());
  expect(await closed).toEqual({ code: 1008, reason: 'the token is bound to another node' });
  expect(await listed('other')).toMatchObject({ up: false });
  expect((await listed('other')).owner).toBeUndefined();
  expect((await listed('own')).owner).toBeUndefined();
});

test.each([
  ['not JSON', 'hello'],
  ['half a frame', hello('x').slice(0, 20)],
  ['an array', '[]'],
  ['an unknown type', '{"type":"install"}'],
  ['an unknown member', JSON.stringify({ type: 'beat', up: true, models: [], prompt: 'secret' })],
  ['a heartbeat before the hello', heartbeat()],
  ['an endless list of models', JSON.stringify({ type: 'beat', up: true, models: Array(1001).fill('m') })],
  ['a name with a line break', heartbeat({ up: false, reason: 'a\nb' })],
  ['bytes', Buffer.from(hello('x'))],
  ['another protocol version', JSON.stringify({ type: 'hello', v: 2, node: 'x' })],
] as const)('%s ends the session', async (name, frame) => {
  const { token } = await node(`wrong-${name.replaceAll(' ', '-').toLowerCase()}`);
  const { socket, closed } = await open(token);
  socket.send(frame);
  expect((await closed).code).toBe(1008);
});

test('a second hello ends the session', async () => {
  const { id, token } = await node('twice');
  const { socket, closed } = await open(token);
  socket.send(hello(id));
  socket.send(hello(id));
  expect(await closed).toEqual({ code: 1008, reason: 'hello comes once' });
});

test('a frame that is too large ends the session before it is read', async () => {
  const { id, token } = await node('large');
  const { socket, closed } = await open(token);
  socket.send(hello(id));
  socket.send('x'.repeat(nodeFrameBytesMax + 1));
  expect((await closed).code).toBe(1009);
});

test.each(['heartbeats', 'pings', 'pongs'] as const)('a flood of %s ends the session', async (what) => {
  const { id, token } = await node(`flood-${what}`);
  const { socket, closed } = await open(token);
  socket.send(hello(id));
  for (let at = 0; at < 100; at++) {
    if (what === 'heartbeats') socket.send(heartbeat({ models: [`m-${at}`] }));
    else if (what === 'pings') socket.ping();
    else socket.pong();
  }
  expect(await closed).toEqual({ code: 1008, reason: 'too many frames' });
});

test('frames after a flood are not read', async () => {
  const { id, token } = await node('flood-after');
  const { socket, closed } = await open(token);
  socket.send(hello(id));
  // Sends a thousand pongs of 125 bytes at a time. The write's callback tells when the kernel has accepted them.
  const pong = Buffer.concat([Buffer.from([0x8a, 0x80 | 125]), Buffer.alloc(4 + 125)]);
  const many = Buffer.concat(Array<Buffer>(1000).fill(pong));
  const raw = Reflect.get(socket, '_socket') as Socket;
  let taken = 0;
  const more = (): void => {
    raw.write(many, (error) => {
      if (error) return;
      taken += many.length;
      if (taken < 64 * 2 ** 20) more();
    });
  };
  more();
  await closed;
  // The buffers of the two sockets hold only a few MiB, so the control plane cannot have read much more.
  expect(taken).toBeLessThan(16 * 2 ** 20);
});

test('an agent that sends nothing is disconnected', async () => {
  const { token } = await node('silent');
  const { closed } = await open(token);
  expect(await closed).toEqual({ code: 1008, reason: 'no beat in time' });
});

test('an agent that changes its models in each heartbeat causes few commits', async () => {
  const { id, token } = await node('restless');
  const { socket } = await open(token);
  const before = await admin.position();
  socket.send(hello(id));
  for (let at = 0; at < 15; at++) {
    socket.send(heartbeat({ models: [`m-${at}`], inFlight: at }));
    await until(async () => (await listed(id)).inFlight === at);
  }
  const { items } = await admin.call('GET', `/events?from=${before + 1}`);
  const reports = items.filter(({ type, data }) => type === 'node.health_changed' && idOf(data) === id);
  expect(reports.length).toBeGreaterThanOrEqual(2);
  expect(reports.length).toBeLessThanOrEqual(6);
  socket.close();
});

interface InventedReports {
  readonly place: 'pool' | 'organisation';
  readonly models: (turn: number) => string[];
  /** Largest size in bytes of the events that follow the first report. */
  readonly bytesMax: number;
}
const long = (text: string): string => `${text}-${'\u00e9\u0001"'.repeat(60)}`.slice(0, 190);
const names = (count: number, turn: number | string): string[] =>
  Array.from({ length: count }, (_, n) => long(`${turn}-${n}`));
test.each<[string, InventedReports]>([
  ['invented names', { place: 'pool', models: (turn) => names(300, turn), bytesMax: 0 }],
  ['the same names in varying number', { place: 'pool', models: (turn) => names(turn * 30, 0), bytesMax: 0 }],
  [
    'names on an organisation’s node',
    { place: 'organisation', models: (turn) => names(300, turn), bytesMax: 300_000 },
  ],
  ['catalogue names', { place: 'pool', models: (turn) => [`m-${turn}`, 'm'], bytesMax: 4_000 }],
])('an agent that reports %s in each heartbeat does not fill the log', async (what, { models, ...of }) => {
  const id = `fat-${what.replaceAll(/[^a-z]/g, '')}`;
  if (of.place === 'organisation') await admin.call('POST', '/organisations', { id, name: id });
  const place = of.place === 'pool' ? { kind: 'pool' } : { kind: 'organisation', id };
  const at = { id, place, url: 'http://127.0.0.1:9', dialect: 'vllm', agent: true };
  await admin.call('POST', '/nodes', at);
  const { value: token } = await admin.createNodeToken(id);
  const { socket } = await open(token);
  socket.send(hello(id));
  const count = 12;
  let before = 0;
  for (let turn = 0; turn < count; turn++) {
    const windows = Object.fromEntries(models(turn).map((name, n) => [name, 1000 + turn + n]));
    socket.send(heartbeat({ models: models(turn), windows, inFlight: turn + 1 }));
    await until(async () => (await listed(id)).inFlight === turn + 1);
    if (turn > 0) continue;
    await until(async () => (await listed(id)).up);
    before = await admin.position();
  }
  const { items } = await admin.call('GET', `/events?from=${before + 1}`);
  const own = items.filter(({ data }) => idOf(data) === id);
  expect(JSON.stringify(own.map(({ data }) => data)).length - 2).toBeLessThanOrEqual(of.bytesMax);
  if (of.bytesMax === 0) expect((await listed(id)).loaded).toContain(models(count - 1).sort()[0]);
  if (of.place === 'organisation') {
    await until(() => logged.includes('the excess is withheld'));
    const { checks } = await admin.call('GET', '/doctor');
    expect(checks).toContainEqual(expect.objectContaining({ code: 'HG5006', object: id }));
  }
  socket.close();
});

test('an engine that names different models in each probe does not fill the log', async () => {
  let probes = 0;
  const engine = createServer(({ url }, response) => {
    if (url === '/v1/models') probes++;
    const data = names(300, probes).map((name) => ({ id: name, object: 'model', max_model_len: probes + 1 }));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ object: 'list', data }));
  });
  const url = await urlOf(engine);
  const before = await admin.position();
  const at = { id: 'fat-engine', place: { kind: 'pool' }, url, dialect: 'vllm' };
  await admin.call('POST', '/nodes', at);
  await until(() => probes > 12);
  const { items } = await admin.call('GET', `/events?from=${before + 1}`);
  const reports = items.filter(({ type, data }) => type === 'node.health_changed' && idOf(data) === at.id);
  expect(reports.map(({ data }) => (data as { models?: object }).models)).toEqual([[]]);
  expect((await listed(at.id)).loaded).toHaveLength(20);
  await admin.call('DELETE', `/nodes/${at.id}`);
  engine.closeAllConnections();
  await new Promise((resolve) => engine.close(resolve));
});

test('a model added to the catalogue after its node loaded it is then served', async () => {
  const { id, token } = await node('early');
  const { socket } = await open(token);
  socket.send(hello(id));
  const model = 'later-model';
  socket.send(heartbeat({ models: [model] }));
  await until(async () => (await listed(id)).up);
  const reported = async (): Promise<boolean> => {
    const { items } = await admin.call('GET', '/events?from=1');
    return items.some(
      ({ type, data }) =>
        type === 'node.health_changed' && idOf(data) === id && JSON.stringify(data).includes(model),
    );
  };
  expect(await reported()).toBe(false);
  expect(await listed(id)).toMatchObject({ loaded: [model] });
  await admin.apply({ version: 1, models: [{ id: model, family: 'm', weight: 1 }] });
  await until(async () => {
    socket.send(heartbeat({ models: [model] }));
    return await reported();
  });
  socket.close();
});

test('an agent that reconnects too often is refused for a while', async () => {
  const { token } = await node('again');
  const refusals = [];
  for (let at = 0; at < 12; at++) {
    const opened = await open(token).catch((refusal: unknown) => refusal as { status: number });
    if ('status' in opened) refusals.push(opened.status);
    else opened.socket.terminate();
  }
  expect(refusals.length).toBeGreaterThanOrEqual(5);
  expect(new Set(refusals)).toEqual(new Set([503]));
});

test('a revoked token ends its session and takes its node down', async () => {
  const { id, token, tokenId } = await node('revoked');
  const { socket, closed } = await open(token);
  socket.send(hello(id));
  const heartbeats = setInterval(() => socket.send(heartbeat()), 500);
  socket.send(heartbeat());
  await until(async () => (await listed(id)).up);
  await admin.call('POST', `/tokens/${tokenId}/revoke`);
  expect(await closed).toEqual({ code: 4403, reason: 'the token is no longer valid' });
  clearInterval(heartbeats);
  await until(async () => !(await listed(id)).up);
  expect(await listed(id)).toMatchObject({ reason: 'its token was revoked' });
});

test('a node’s second session supersedes the first', async () => {
  const { id, token } = await node('second');
  const first = await open(token);
  first.socket.send(hello(id));
  first.socket.send(heartbeat());
  await until(async () => (await listed(id)).up);
  const position = await admin.position();
  const second = await open(token);
  second.socket.send(hello(id));
  second.socket.send(heartbeat());
  expect(await first.closed).toEqual({ code: 4409, reason: 'another session has this node now' });
  expect(await listed(id)).toMatchObject({ up: true });
  expect(await admin.position()).toBe(position);
  second.socket.close();
});

test('a node with a different engine than registered does not count as up', async () => {
  const { id, token } = await node('kind');
  const { socket } = await open(token);
  socket.send(hello(id));
  socket.send(heartbeat({ dialect: 'ollama' }));
  const reason = 'the engine is ollama, but the node is registered as vllm';
  await until(async () => (await listed(id)).reason === reason);
  expect(await listed(id)).toMatchObject({ up: false, loaded: [] });
  socket.close();
});

test('image and rerank models are in the log only while the engine serves and reports them', async () => {
  const { id, token } = await node('images');
  const before = await admin.position();
  const reported = async (): Promise<unknown[]> => {
    const { items } = await admin.call('GET', `/events?from=${before + 1}`);
    const of = items.filter(({ type, data }) => type === 'node.health_changed' && idOf(data) === id);
    return of.map(({ data }) => {
      const { imageModels, rerankModels } = data as { imageModels?: string[]; rerankModels?: string[] };
      return { imageModels, rerankModels };
    });
  };
  const { socket } = await open(token);
  socket.send(hello(id));
  socket.send(heartbeat({ imageModels: ['m', 'not-served'], rerankModels: ['not-served', 'm'] }));
  await until(async () => (await reported()).length === 1);
  // Sends a heartbeat as agents of version 0.1 do.
  socket.send(heartbeat());
  await until(async () => (await reported()).length === 2);
  expect(await reported()).toEqual([{ imageModels: ['m'], rerankModels: ['m'] }, {}]);
  socket.close();
});

test('a node’s installs are pushed under the engine’s names, at once and on every change', async () => {
  const { id, token } = await node('installs');
  await admin.apply({
    version: 1,
    models: ['echo-small', 'echo-large'].map((model) => ({ id: model, family: 'echo', weight: 1 })),
    pool: {
      models: ['echo-small'],
      nodes: [
        { id, url: 'http://127.0.0.1:9', dialect: 'vllm', agent: true, models: { 'echo-small': 'served' } },
      ],
    },
  });
  const { socket, frames } = await open(token);
  socket.send(hello(id));
  socket.send(heartbeat());
  await until(async () => frames.length > 0);
  expect(frames[0]).toMatchObject({ type: 'installs', models: ['served'] });
  await admin.apply({ version: 1, pool: { models: ['echo-small', 'echo-large'] } });
  await until(async () => frames.length > 1);
  expect(frames[1]).toMatchObject({ type: 'installs', models: ['echo-large', 'served'] });
  socket.close();
});

test('tokens are never logged, and refusals cause at most one log line per second', async () => {
  const before = logged.length;
  await Promise.all(Array.from({ length: 100 }, () => open('ngt_guess').catch(() => undefined)));
  const lines = logged.slice(before).match(/agents refused/g) ?? [];
  expect(lines.length).toBeLessThanOrEqual(3);
  expect(logged).toContain('agents refused');
  for (const token of [...tokens, 'ngt_guess', 'ngt_wrong', 'secret']) expect(logged).not.toContain(token);
});

/**
 * Tests the traces of a running gateway. An OTLP receiver collects them over HTTP, a node records the headers that it
 * receives, and another receiver hangs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  completion,
  type GatewayProcess,
  metric,
  model,
  organisation,
  ProcessFleet,
  smallFleet,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Record<string, unknown> }[];
}

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const traceparent = `00-${traceId}-${parentId}-01`;

const fleet = new ProcessFleet();
const nodeHeaders: IncomingHttpHeaders[] = [];
const bodies: string[] = [];
const held: ServerResponse[] = [];
let hangs = false;
let refuses = false;
const servers: Server[] = [];
let traced: GatewayProcess;
let untraced: GatewayProcess;
let key: string;

async function serve(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Writes the number of loaded OpenTelemetry packages to a file when the process exits. */
const listLoaded = `
process.on('exit', () => {
  // The interface alone is loaded by the library of the metrics.
  const loaded = Object.keys(require.cache).filter((path) => /@opentelemetry.(?!api\\b)/.test(path));
  require('node:fs').writeFileSync(process.env.LOADED_FILE, String(loaded.length));
});
`;
const loadedFile = (name: string) => join(fleet.dir, `${name}.loaded`);

beforeAll(async () => {
  const receiver = await serve((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      if (hangs) held.push(response);
      else if (refuses) response.writeHead(403).end();
      else {
        bodies.push(body);
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      }
    });
  });
  const plane = await fleet.serve<{ admin: string }>('control-plane', 'cp');
  const node = await fleet.simNode('node', '--models', model, '--tokens-per-second', '0');
  const recording = await serve((request, response) => {
    if (request.method === 'POST') nodeHeaders.push(request.headers);
    const { method, headers } = request;
    const passed = httpRequest(`${node.ready.url}${request.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
  const admin = fleet.admin(plane);
  await admin.apply(smallFleet(recording));
  key = (await admin.createKey(organisation, 'k')).value;
  const hook = join(fleet.dir, 'list-loaded.cjs');
  writeFileSync(hook, listLoaded);
  const envOf = (name: string) => ({ NODE_OPTIONS: `--require ${hook}`, LOADED_FILE: loadedFile(name) });
  const small = {
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_BSP_MAX_QUEUE_SIZE: '60',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '20',
  };
  [traced, untraced] = await Promise.all([
    fleet.serve<GatewayProcess['ready']>('gateway', 'traced', [], {
      ...{
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver,
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      },
      ...{ ...small, ...envOf('traced') },
    }),
    fleet.serve<GatewayProcess['ready']>('gateway', 'untraced', [], envOf('untraced')),
  ]);
  for (const gateway of [traced, untraced])
    await until(async () => (await ask(gateway, { key })).status === 200, 60_000);
});
afterAll(async () => {
  for (const response of held) response.destroy();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await fleet.close();
});

/** Sends a request with the stack's Host header, which `fetch` cannot set. */
function askStack(gateway: GatewayProcess, stack: string, trace: string): Promise<number | undefined> {
  const { hostname, port } = new URL(gateway.ready.api);
  const headers = {
    ...{ host: `${stack}.localhost:${port}`, authorization: `Bearer ${key}` },
    ...{ 'content-type': 'application/json', traceparent: trace },
  };
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] });
  return new Promise((resolve, reject) => {
    httpRequest({ hostname, port, path: '/v1/chat/completions', method: 'POST', headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    })
      .on('error', reject)
      .end(body);
  });
}

interface TracedRequest {
  readonly key: string;
  readonly traceparent?: string;
  readonly model?: string;
  readonly prompt?: string;
}

async function ask(gateway: GatewayProcess, asked: TracedRequest): Promise<Response> {
  const more = {
    model: asked.model ?? model,
    messages: [{ role: 'user', content: asked.prompt ?? 'hello' }],
  };
  const headers = asked.traceparent === undefined ? {} : { traceparent: asked.traceparent };
  const response = await completion(gateway.ready.api, asked.key, more, { headers });
  await response.text();
  return response;
}

function spans(): Span[] {
  return bodies.flatMap((body) => {
    const { resourceSpans } = JSON.parse(body) as {
      resourceSpans: { scopeSpans: { spans: Span[] }[] }[];
    };
    return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
  });
}

function attributesOf({ attributes }: Span): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key: name, value }) => [name, Object.values(value)[0]]));
}

test('a traced request has a span for each phase, and the node receives its call’s span', async () => {
  const answer = await ask(traced, { key, traceparent, prompt: 'the secret prompt' });
  expect(answer.status).toBe(200);
  expect([...answer.headers.keys()].filter((name) => name.startsWith('trace'))).toEqual([]);
  const mine = () => spans().filter((span) => span.traceId === traceId);
  await until(() => mine().length === 5, 30_000);
  const byName = new Map(mine().map((span) => [span.name, span]));
  const request = byName.get('POST /v1/chat/completions');
  const node = byName.get(`chat ${model}`);
  expect([...byName.keys()].sort()).toEqual([
    'POST /v1/chat/completions',
    'authenticate',
    `chat ${model}`,
    'decide',
    'shape',
  ]);
  expect(request?.parentSpanId).toBe(parentId);
  for (const span of mine()) {
    if (span.spanId !== request?.spanId) expect(span.parentSpanId, span.name).toBe(request?.spanId);
    expect(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), span.name).toBe(true);
    expect(BigInt(span.startTimeUnixNano) >= BigInt(request?.startTimeUnixNano ?? 0), span.name).toBe(true);
  }
  expect(nodeHeaders.at(-1)?.['traceparent']).toBe(`00-${traceId}-${node?.spanId}-01`);
  expect(node && attributesOf(node)).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': model,
    'gen_ai.usage.output_tokens': expect.anything(),
    'headgate.node': 'pool-1',
  });
  expect(request && attributesOf(request)).toMatchObject({
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'headgate.organisation': organisation,
  });
  expect(bodies.at(-1)).toContain('deployment.environment.name');
});

test('no attribute contains a prompt, key or caller’s text, even if it was sent in the wrong place', async () => {
  const refused = `00-${'a'.repeat(32)}-${parentId}-01`;
  await ask(traced, { key: 'hg-secret-wrong-key-000', traceparent: refused });
  await ask(traced, { key, model: 'secret-model-name', traceparent: refused });
  // The key is valid, but the stack's name was made up by the caller and must not appear in a span.
  expect(await askStack(traced, 'stk-secret-otter-9k2f', refused)).toBe(404);
  const hosts = () =>
    spans()
      .filter(({ traceId: id }) => id === 'a'.repeat(32))
      .map((span) => attributesOf(span)['headgate.host_kind']);
  await until(() => hosts().includes('stack') && hosts().length >= 9, 30_000);
  const found = spans().filter(({ traceId: id }) => id === 'a'.repeat(32));
  expect(found.map((span) => attributesOf(span)['error.type']).filter(Boolean)).toEqual(
    expect.arrayContaining(['Unauthorized']),
  );
  for (const body of bodies) {
    expect(body).not.toContain('secret');
    expect(body).not.toContain(key);
    expect(body).not.toContain('hello');
  }
});

test('without an endpoint a trace is passed on unchanged, and a broken one is dropped', async () => {
  await ask(untraced, { key, traceparent });
  expect(nodeHeaders.at(-1)?.['traceparent']).toBe(traceparent);
  await ask(untraced, { key, traceparent: `${traceparent}-broken` });
  expect(nodeHeaders.at(-1)).not.toHaveProperty('traceparent');
  await ask(untraced, { key });
  expect(nodeHeaders.at(-1)).not.toHaveProperty('traceparent');
});

test('a refusing receiver is logged once per change and counted, without repeating its words', async () => {
  const sample = (outcome: string) => metric(traced, `headgate_trace_spans_total{outcome="${outcome}"}`);
  const lines = () =>
    traced
      .stderr()
      .split('\n')
      .filter((line) => line.includes('"traces.reachability"'))
      .map((line) => (JSON.parse(line) as { reachable: boolean }).reachable);
  await until(async () => (await sample('sent')) > 0, 30_000);
  expect([await sample('failed'), lines()]).toEqual([0, []]);
  refuses = true;
  for (const atLeast of [1, 6]) {
    await ask(traced, { key });
    await until(async () => (await sample('failed')) >= atLeast, 30_000);
  }
  expect(lines()).toEqual([false]);
  refuses = false;
  const before = await sample('sent');
  await ask(traced, { key });
  await until(async () => (await sample('sent')) > before, 30_000);
  await until(() => lines().length === 2, 30_000);
  expect(lines()).toEqual([false, true]);
});

test.each([
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector-of-somebody:4318' },
  { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_TRACES_SAMPLER: 'alwayson' },
])('a gateway does not start with %j, and names the variable', async (env) => {
  await expect(fleet.serve('gateway', 'never', [], env)).rejects.toThrow(
    Object.keys(env).at(-1) ?? 'no variable',
  );
});

test('a hanging receiver costs no request: spans beyond the queue are dropped, and the gateway ends', async () => {
  hangs = true;
  const statuses = new Set<number>();
  const mark = (digit: string) => `00-${digit.repeat(32)}-${parentId}-01`;
  for (let n = 0; n < 100; n++) statuses.add((await ask(traced, { key, traceparent: mark('c') })).status);
  expect([...statuses]).toEqual([200]);
  await until(() => held.length > 0, 30_000);
  hangs = false;
  for (const response of held.splice(0)) response.writeHead(200).end('{}');
  // The gateway has made 500 spans, but its queue has room for only 60, so most of them must have been dropped.
  await until(async () => {
    await ask(traced, { key, traceparent: mark('b') });
    return spans().some(({ traceId: id }) => id === 'b'.repeat(32));
  }, 60_000);
  expect(spans().filter(({ traceId: id }) => id === 'c'.repeat(32)).length).toBeLessThan(150);

  hangs = true;
  await ask(traced, { key });
  await Promise.all([traced.end(), untraced.end()]);
  expect([traced.child.exitCode, untraced.child.exitCode]).toEqual([0, 0]);
  // OpenTelemetry code may be loaded only if an endpoint is set.
  expect(Number(readFileSync(loadedFile('traced'), 'utf8'))).toBeGreaterThan(10);
  expect(readFileSync(loadedFile('untraced'), 'utf8')).toBe('0');
});

/**
 * Walks randomly through forwarding: the node and the client may do anything at any moment and in any order. Only the two
 * sockets are scripted. The call, the attempt, the transformers, the client's response and the memory budget are real.
 */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';
import { nodeFailed } from '../../shared/decision/route.ts';
import { routeTo } from '../../test/support/forward-server.ts';
import { BodyWorker } from '../body-worker/body-worker.ts';
import { ClientConnection } from '../http/client-connection.ts';
import type { Exchange } from '../http/exchange.ts';
import type { AnswerForm } from '../surfaces/surfaces.ts';
import { shapeOperation, type ValidRequest } from '../surfaces/surfaces.ts';
import { type AttemptEvent, type AttemptState, transitions } from './attempt-states.ts';
import { defaultForwardSettings, type ForwardOutcome, forward } from './forward.ts';
import { NodeLoad } from './load.ts';
import { NodeCall } from './node-call.ts';
import { NodePools, type Upstream } from './node-pools.ts';
import { NodeWires } from './node-wires.ts';
import type { WireCall, WireController, WireRequest } from './wire-call.ts';

const runs = 500;
const states = Object.keys(transitions) as AttemptState[];
const events = Object.keys(transitions.connecting) as AttemptEvent[];

test('in every sequence of events, an attempt completes only whole deliveries, and ends once', () => {
  const ended = (state: AttemptState): boolean =>
    events.every((event) => transitions[state][event] === 'ignored');
  expect(states.filter(ended)).toHaveLength(6);
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...events), { maxLength: 30 }), (walk) => {
      let state = states[0] as AttemptState;
      const passed: AttemptState[] = [];
      for (const event of walk) {
        const next: AttemptState | 'ignored' = transitions[state][event];
        if (next === 'ignored') continue;
        expect(ended(state)).toBe(false);
        passed.push(state);
        state = next;
      }
      const started = passed.includes('streaming') || passed.includes('delivering');
      if (state === 'completed') expect(passed.at(-1)).toBe('delivering');
      if (state === 'unreached') expect(passed).toEqual(['connecting']);
      if (state === 'failed') expect(started).toBe(false);
      expect(passed.filter((one) => one === 'reconnecting').length).toBeLessThanOrEqual(1);
      expect(passed.indexOf('connecting')).toBeLessThanOrEqual(0);
      if (state === 'aborted-after-start') expect(started).toBe(true);
    }),
    { numRuns: 2000 },
  );
});

/** The client's side of a connection. The client reads, stops reading or leaves. */
class ClientSocket extends Duplex {
  /** Number of bytes that the gateway has written to the client. `taken` is the text that the client has read. */
  written = 0;
  taken = '';
  hasLeft = false;
  reads = true;
  #held: (() => void)[] = [];

  constructor() {
    super({ writableHighWaterMark: 300 });
    this.on('error', () => undefined);
  }

  setReads(reads: boolean): void {
    this.reads = reads;
    if (reads) for (const take of this.#held.splice(0)) take();
  }

  leave(): void {
    this.hasLeft = true;
    this.destroy();
  }

  override _read(): void {
    // Nothing to do, because the test itself pushes the requests.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.written += chunk.length;
    const take = (): void => {
      if (this.destroyed) return;
      this.taken += chunk.toString('latin1');
      done();
    };
    if (this.reads) take();
    else this.#held.push(take);
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  /** Whether the answer ended where its framing said it would. */
  get hasCleanEnd(): boolean {
    const [head = '', body = ''] = this.taken.split(/\r\n\r\n(.*)/s);
    const length = /content-length: (\d+)/i.exec(head)?.[1];
    return length === undefined ? body.endsWith('0\r\n\r\n') : body.length === Number(length);
  }
}

/** A request that a node received, seen from the node's connection. */
class NodeExchange implements WireController {
  readonly call: WireCall;
  isConnected = false;
  isOver = false;
  paused = false;
  hasAnything = false;
  hasHead = false;
  /** Whether the connection was lost after the request was sent and before the answer's first byte arrived. */
  wasUnanswered = false;
  /** Whether the node sent an answer that may be billed. */
  wasWhole = false;
  events = 0;

  constructor(call: WireCall) {
    this.call = call;
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  abort(): void {
    this.isOver = true;
  }

  fail(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.call.onResponseError(error);
  }

  /** Ends the connection without an answer, as a node may do with a reused connection. */
  hangUp(): void {
    if (!this.isConnected || this.isOver || this.hasAnything) return;
    this.isOver = true;
    this.wasUnanswered = true;
    this.call.onUnanswered(Object.assign(new Error('lost'), { code: 'ECONNRESET' }));
  }

  connect(): void {
    if (this.isConnected || this.isOver) return;
    this.call.onRequestStart(this);
    // If the call was given up while the connection was being opened, it aborts now, before any byte is sent.
    this.isConnected = !this.isOver;
  }

  head(status: number, type: string): void {
    if (!this.isConnected || this.isOver || this.hasHead) return;
    this.hasAnything = true;
    this.hasHead = status >= 200;
    this.call.onResponseStart(status, type);
  }

  data(text: string): boolean {
    if (!this.hasHead || this.isOver || this.paused) return false;
    this.call.onResponseData(Buffer.from(text));
    return true;
  }

  end(): void {
    if (!this.hasHead || this.isOver || this.paused) return;
    this.isOver = true;
    this.call.onResponseEnd();
  }

  /** Lets so much time pass that all deadlines are over. */
  expire(): void {
    if (this.call instanceof NodeCall) this.call.tick(Number.MAX_VALUE);
  }
}

class ScriptedWires extends NodeWires {
  readonly exchanges: NodeExchange[] = [];

  constructor() {
    super('http://127.0.0.1:1', { keepAliveMs: 1000, onOutOfFiles: () => undefined });
  }

  override dispatch(_request: WireRequest, call: WireCall): void {
    this.exchanges.push(new NodeExchange(call));
  }
}

class ScriptedPools extends NodePools {
  readonly pool = new ScriptedWires();

  constructor() {
    super({ credential: () => undefined, tickMs: 1_000_000 });
  }

  override upstream(): Upstream {
    return { pool: this.pool, pathPrefix: '', usedMs: 0 };
  }
}

const event = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const words = event({ content: 'some words of an answer that is long enough to fill a buffer '.repeat(2) });
const lastEvents = `${event({ content: '.' }, 'stop')}data: [DONE]\n\n`;
const answerOf = (content: string): string =>
  JSON.stringify({
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  });
const wholeAnswer = answerOf('hello');
const json = 'application/json';

type Step = (node: NodeExchange, client: ClientSocket) => unknown;
const steps: Readonly<Record<string, Step>> = {
  connect: (node) => node.connect(),
  'interim head': (node) => node.head(103, json),
  'head of a stream': (node) => node.head(200, 'text/event-stream; charset=utf-8'),
  'head of an answer': (node) => node.head(200, json),
  'head of an error': (node) => node.head(500, json),
  'head of another type': (node) => node.head(200, 'text/html'),
  'one event': (node) => node.data(words),
  'many events': (node) => node.data(words.repeat(5)),
  'half an event': (node) => node.data(words.slice(0, 40)),
  'a comment': (node) => node.data(': waiting\n\n'),
  'an event that is none': (node) => node.data('data: {"choices":7}\n\n'),
  'the last events': (node) => {
    if (node.data(lastEvents)) node.wasWhole = true;
  },
  'the last events, and more': (node) => {
    if (node.data(lastEvents + words)) node.wasWhole = true;
  },
  'a whole answer': (node) => {
    if (node.data(wholeAnswer)) node.wasWhole = true;
  },
  end: (node) => node.end(),
  'a lost connection': (node) => node.fail(Object.assign(new Error('lost'), { code: 'ECONNRESET' })),
  'a reused connection is lost': (node) => node.hangUp(),
  'time passes': (node) => node.expire(),
  'the client reads': (_, client) => client.setReads(true),
  'the client reads nothing': (_, client) => client.setReads(false),
  'the client leaves': (_, client) => client.leave(),
  'a turn of the event loop': async (node, client) => {
    await turn();
    // Once the client reads again, the node's answer must not stay paused.
    if (client.reads && !node.isOver) expect(node.paused).toBe(false);
  },
};

/** First steps that lead deep into the state machine, so that many walks get there. */
const beginnings: readonly (readonly string[])[] = [
  [],
  ['connect', 'head of a stream'],
  ['connect', 'head of an answer'],
  ['connect', 'head of an error'],
  ['connect', 'a reused connection is lost'],
  ['connect', 'a reused connection is lost', 'connect'],
  ['connect', 'head of a stream', 'one event'],
  ['connect', 'head of a stream', 'the client reads nothing', 'many events', 'a turn of the event loop'],
  ['connect', 'head of a stream', 'the client reads nothing', 'one event', 'the last events'],
  ['connect', 'head of an answer', 'a whole answer'],
  ['connect', 'head of an answer', 'the client reads nothing', 'a whole answer', 'end'],
  ['a lost connection', 'a turn of the event loop', 'connect', 'head of a stream', 'one event'],
];

function requestOf(
  kind: 'chat' | 'messages' | 'responses',
  more: object,
): ValidRequest & { readonly form: AnswerForm } {
  const prompt =
    kind === 'responses' ? { input: 'hello' } : { messages: [{ role: 'user', content: 'hello' }] };
  const bytes = Buffer.from(JSON.stringify({ model: 'm', ...prompt, ...more }));
  const headers = { contentType: json, version: undefined };
  const { form, ...shaped } = shapeOperation({ kind }, bytes, headers);
  if (form === undefined) throw new Error('has no answer');
  return { ...shaped, form };
}

const requests = {
  chat: requestOf('chat', {}),
  'streamed chat': requestOf('chat', { stream: true }),
  'streamed message': requestOf('messages', { stream: true, max_tokens: 9 }),
  'streamed response': requestOf('responses', { stream: true }),
};

let bodyWorker: BodyWorker;
beforeAll(() => {
  bodyWorker = new BodyWorker();
});
afterAll(() => bodyWorker.close());

const bounds = {
  ...{ headLooks: 1, requestLooks: 1, nextLooks: 1, restLooks: 1 },
  ...{ stallMs: 60_000, lastBytesMs: 10_000, keepAliveSeconds: 75 },
};

interface ConnectedClient {
  readonly socket: ClientSocket;
  readonly client: Exchange;
}

async function connectedClient(): Promise<ConnectedClient> {
  const socket = new ClientSocket();
  const client = await new Promise<Exchange>((begin) => {
    const owner = { bounds, isStopping: false, begin, onRefusal: () => undefined };
    new ClientConnection(socket as Duplex as Socket, owner);
    socket.push('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  });
  return { socket, client };
}

type Ending =
  | ForwardOutcome
  | { readonly kind: 'refused' }
  | { readonly kind: 'fault'; readonly error: unknown };

async function walk({ asked, form }: ReturnType<typeof requestOf>, names: readonly string[]): Promise<void> {
  const pools = new ScriptedPools();
  const load = new NodeLoad({ random: () => 0 });
  const { socket, client } = await connectedClient();
  let sent = 0;
  const state: { ended: Ending | undefined; writtenAtEnd: number } = { ended: undefined, writtenAtEnd: 0 };
  const record = (ended: Ending): void => {
    state.ended = ended;
    state.writtenAtEnd = socket.written + socket.writableLength;
  };
  const body = {
    discard: () => {
      sent += 1;
    },
    release: () => undefined,
  };
  const means = { forwarding: defaultForwardSettings, pools, load, bodyWorker, streams: { open: 0 } };
  void forward(means, {
    asked,
    form,
    body,
    candidates: [routeTo('http://a.invalid'), routeTo('http://b.invalid', { node: 'n2' })],
    tier: 'Starter',
    maxTokensFor: () => 9,
    client,
    fields: [],
    ids: { unique: 'test', createdSeconds: 1_800_000_000 },
    at: { sent: undefined, begun: undefined },
    choose: (left) => load.choose(left),
    owner: 'test',
    onNodeFailure: nodeFailed,
    onOddForm: () => undefined,
  }).then(record, (error) =>
    record(error instanceof Refusal ? { kind: 'refused' } : { kind: 'fault', error }),
  );
  await turn();
  const exchanges = pools.pool.exchanges;
  for (const name of names) await steps[name]?.(exchanges.at(-1) as NodeExchange, socket);

  // Let all deadlines pass, which ends the attempt in any state.
  for (let round = 0; state.ended === undefined && round < 6; round += 1) {
    await turn();
    for (const exchange of exchanges) exchange.expire();
    if (round > 2) socket.leave();
    await turn();
  }
  const { ended } = state;
  expect(ended).toBeDefined();
  expect(ended?.kind).not.toBe('fault');
  for (const exchange of exchanges) {
    exchange.data(words);
    exchange.end();
    exchange.expire();
  }
  await turn();

  expect(socket.written + socket.writableLength).toBeLessThanOrEqual(state.writtenAtEnd);
  expect(pools.answerBytes.usedBytes).toBe(0);
  expect(load.inFlightTotal()).toBe(0);
  expect(pools.ticker.size).toBe(0);
  // The text of the request is discarded once it has been sent, so it can be sent at most twice.
  expect(sent).toBeLessThanOrEqual(2);
  const [first, ...others] = exchanges.filter((exchange) => exchange.isConnected);
  expect(others.length).toBeLessThanOrEqual(first?.wasUnanswered === true ? 1 : 0);
  const wasWhole = exchanges.some((exchange) => exchange.wasWhole);
  if (ended?.kind === 'completed') {
    expect(wasWhole).toBe(true);
    expect(socket.hasCleanEnd).toBe(true);
  } else if (!socket.hasLeft) expect(socket.hasCleanEnd).toBe(false);
  if (ended?.kind === 'refused') expect(state.writtenAtEnd).toBe(0);
  if (ended?.kind === 'ended-early' && ended.by !== 'client') expect(client.startedMs).toBeDefined();
  if (ended?.kind === 'ended-early' && ended.by === 'client') expect(socket.hasLeft).toBe(true);
  socket.destroy();
  await pools.close();
}

test('whatever node and client do, there is one result, nothing is held after it, and only delivery is billed', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.values(requests)),
      fc.constantFrom(...beginnings),
      fc.array(fc.constantFrom(...Object.keys(steps)), { maxLength: 14 }),
      (request, beginning, more) => walk(request, [...beginning, ...more]),
    ),
    { numRuns: runs },
  );
}, 60_000);

test.each([
  ['is rebuilt at once', 'hello'],
  ['is rebuilt on the body worker', 'a'.repeat(300 * 1024)],
])('an answer that %s but cannot be written is a fault of its request alone', async (_how, content) => {
  const pools = new ScriptedPools();
  const { socket, client } = await connectedClient();
  const load = new NodeLoad();
  const means = { forwarding: defaultForwardSettings, pools, load, bodyWorker, streams: { open: 0 } };
  const result = forward(means, {
    asked: requests.chat.asked,
    form: requests.chat.form,
    body: { discard: () => undefined, release: () => undefined },
    candidates: [routeTo('http://a.invalid')],
    tier: 'Starter',
    maxTokensFor: () => 9,
    client,
    fields: [],
    ids: { unique: 'test', createdSeconds: 1_800_000_000 },
    at: { sent: undefined, begun: undefined },
    choose: ([first]) => first,
    owner: 'test',
    onNodeFailure: nodeFailed,
    onOddForm: () => undefined,
  });
  const rejected = expect(result).rejects.toMatchObject({ code: 'ERR_UNWRITABLE' });
  await turn();
  socket.write = () => {
    throw Object.assign(new Error('unwritable'), { code: 'ERR_UNWRITABLE' });
  };
  const [node] = pools.pool.exchanges;
  node?.connect();
  node?.head(200, json);
  node?.data(answerOf(content));
  await turn();
  node?.end();
  await rejected;
  expect(pools.answerBytes.usedBytes).toBe(0);
  socket.destroy();
  await pools.close();
});

/** Requests of all kinds, drawn at random, and how each is sent. */
import { randomBytes } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import fc from 'fast-check';
import { mintKey } from '../../shared/ids/api-key.ts';
import { type Answer, call } from '../support/api.ts';
import { type ExplainedFleet, missingStack, nodeFaults, stacks } from './explained-fleet.ts';

export type Operation =
  | 'chat'
  | 'responses'
  | 'messages'
  | 'count-tokens'
  | 'embeddings'
  | 'models'
  | 'model'
  | 'unknown';
export type Defect = 'shape' | 'unknown field' | 'encoded' | 'bad http';

export interface Asked {
  readonly gateway: number;
  /** A key of the fleet, or what was sent in place of one. */
  readonly who: string;
  /** `shared`, `unknown`, or a stack. */
  readonly host: string;
  readonly operation: Operation;
  readonly model: string;
  readonly maxTokens: number | undefined;
  /** Of the one message. */
  readonly promptBytes: number;
  readonly defect: Defect | undefined;
  /** A visitor of the playground, by number; it has no key. */
  readonly visitor: number | undefined;
}

const often = <Value>(...weighted: readonly (readonly [number, Value])[]): fc.Arbitrary<Value> =>
  fc.oneof(...weighted.map(([weight, value]) => ({ weight, arbitrary: fc.constant(value) })));
const gateway = fc.constantFrom(0, 1);
const defect = often<Defect | undefined>(
  ...([
    [60, undefined],
    [1, 'shape'],
    [1, 'unknown field'],
    [1, 'encoded'],
    [1, 'bad http'],
  ] as const),
);
const maxTokens = often<number | undefined>([4, 1], [2, 7], [1, undefined], [1, 1_000_000]);
const plain = fc.constant({ promptBytes: 11, visitor: undefined });

const payers = often(
  ...([
    [3, 'near-a'],
    [4, 'busy'],
    [4, 'slots'],
    [3, 'month'],
    [3, 'acme'],
    [1, 'birch'],
  ] as const),
  ...([
    [1, 'dormant'],
    [1, 'paused'],
    [1, 'revoked'],
    [1, 'expired'],
    [1, 'fleeting'],
  ] as const),
  ...([
    [1, 'nobody'],
    [1, 'malformed'],
    [1, 'missing'],
  ] as const),
);
const models = often(
  ...([
    [16, 'echo-small'],
    [4, 'echo-large'],
    [3, 'echo-heavy'],
    [1, 'echo-idle'],
    [1, 'echo-locked'],
  ] as const),
  ...([
    [2, 'echo-private'],
    [1, 'echo-bare'],
    [1, 'unknown-model'],
  ] as const),
);
const shared = { host: fc.constant('shared'), operation: fc.constant<Operation>('chat') };
const base = { gateway, maxTokens, defect };
const parts = (
  record: { [Name in keyof Omit<Asked, 'promptBytes' | 'visitor'>]: fc.Arbitrary<Asked[Name]> },
) => fc.tuple(fc.record(record), plain).map(([one, two]): Asked => ({ ...one, ...two }));

const atShared = parts({ ...base, ...shared, who: payers, model: models });
const faulty = parts({
  ...{ ...base, ...shared, who: fc.constantFrom('busy', 'acme', 'slots') },
  ...{
    model: fc.constantFrom(...Object.keys(nodeFaults)),
    maxTokens: fc.constant(7),
    defect: fc.constant(undefined),
  },
});
/** The bound of the prompt does not fit, so that a node counts it; or it cannot fit. */
const long = parts({
  ...base,
  ...shared,
  who: fc.constant('narrow'),
  model: fc.constant('echo-small'),
}).chain((one) =>
  fc.constantFrom(11, 1200, 2400, 4000, 9000).map((promptBytes): Asked => ({ ...one, promptBytes })),
);
const elsewhere = parts({
  ...base,
  who: fc.constantFrom('acme', 'acme', 'birch', 'birch', 'two', 'near-a', 'dormant', 'nobody', 'missing'),
  host: often([4, stacks.otter], [4, stacks.heron], [1, missingStack], [1, 'unknown']),
  operation: often<Operation>(
    ...([
      [4, 'chat'],
      [4, 'messages'],
      [2, 'responses'],
      [1, 'count-tokens'],
      [1, 'embeddings'],
      [1, 'unknown'],
    ] as const),
    ...([
      [2, 'models'],
      [2, 'model'],
    ] as const),
  ),
  model: often([4, 'echo-small'], [4, 'echo-large'], [2, 'echo-embed'], [1, 'unknown-model']),
});
const otherwise = parts({
  ...{ ...base, who: fc.constantFrom('acme', 'busy', 'missing'), host: fc.constant('shared') },
  operation: fc.constantFrom<Operation>(
    ...(['messages', 'responses', 'embeddings', 'unknown', 'models', 'model'] as const),
  ),
  model: fc.constantFrom('echo-embed', 'echo-small', 'echo-idle', 'unknown-model'),
});
const turns = parts({
  ...{ ...base, ...shared, who: fc.constant('missing') },
  ...{
    model: often([6, 'echo-quick'], [1, 'echo-large'], [1, 'unknown-model']),
    defect: fc.constant(undefined),
  },
}).chain((one) => fc.constantFrom(0, 0, 1).map((visitor): Asked => ({ ...one, visitor })));

export const asked: fc.Arbitrary<Asked> = fc.oneof(
  { weight: 12, arbitrary: atShared },
  { weight: 2, arbitrary: faulty },
  { weight: 3, arbitrary: long },
  { weight: 5, arbitrary: elsewhere },
  { weight: 2, arbitrary: otherwise },
  { weight: 3, arbitrary: turns },
);

const paths: Readonly<Record<Operation, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  'count-tokens': '/v1/messages/count_tokens',
  embeddings: '/v1/embeddings',
  models: '/v1/models',
  model: '/v1/models/',
  unknown: '/v1/none',
};
export const isListing = ({ operation }: Asked): boolean => operation === 'models' || operation === 'model';
export const isMessages = ({ operation }: Asked): boolean =>
  operation === 'messages' || operation === 'count-tokens';
/** Messages need a number. */
export const askedTokens = ({ operation, maxTokens: asks }: Asked): number | undefined =>
  operation === 'messages' ? (asks ?? 9) : asks;

const words = 'hello there ';
const prompt = ({ promptBytes }: Asked): string =>
  words.repeat(promptBytes / words.length + 1).slice(0, promptBytes);

function bodyOf(one: Asked): object {
  const { operation, model, defect: fault } = one;
  const tokens = askedTokens(one);
  const unknown = fault === 'unknown field' && { surely_not_a_field: 1 };
  if (operation === 'embeddings') return { model, input: fault === 'shape' ? {} : prompt(one), ...unknown };
  if (operation === 'responses')
    return {
      ...{ model, input: fault === 'shape' ? 7 : prompt(one), ...unknown },
      ...(tokens !== undefined && { max_output_tokens: tokens }),
    };
  return {
    ...{ model, messages: fault === 'shape' ? 7 : [{ role: 'user', content: prompt(one) }] },
    ...(operation !== 'count-tokens' && tokens !== undefined && { max_tokens: tokens }),
    ...unknown,
    ...(one.visitor !== undefined && { stream: true, stream_options: { include_usage: true } }),
  };
}

/** Of the form of a key, and nobody's. */
const unknownKey = mintKey(randomBytes);

function credentials(fleet: ExplainedFleet, { who, host }: Asked): Record<string, string> {
  if (who === 'missing') return {};
  if (who === 'malformed') return { authorization: 'Bearer no-key-at-all' };
  if (who === 'nobody') return { authorization: `Bearer ${unknownKey}` };
  const key = (name: string): string => fleet.keys.get(name)?.value ?? '';
  if (who === 'two') return { authorization: `Bearer ${key('acme')}`, 'x-api-key': key('birch') };
  // Both ways are taken where both count.
  return host === stacks.heron && who === 'birch'
    ? { 'x-api-key': key(who) }
    : { authorization: `Bearer ${key(who)}` };
}

export function send(fleet: ExplainedFleet, one: Asked, cookies: readonly string[]): Promise<Answer> {
  const { operation, gateway: at, host, visitor, defect: fault, model } = one;
  if (visitor !== undefined) return play(fleet, one, cookies[visitor] ?? '');
  const name = host === 'shared' ? '127.0.0.1' : host === 'unknown' ? 'nobody.test' : `${host}.stacks.test`;
  const path = operation === 'model' ? `${paths.model}${model}` : paths[operation];
  const method = isListing(one) ? 'GET' : 'POST';
  return call({
    ...{ port: fleet.port(at), host: name, method },
    path: fault === 'bad http' ? `http://127.0.0.1${path}` : path,
    headers: {
      ...credentials(fleet, one),
      ...(isMessages(one) && { 'anthropic-version': '2023-06-01' }),
      ...(fault === 'encoded' && { 'content-encoding': 'gzip' }),
    },
    ...(method === 'POST' && { body: bodyOf(one) }),
  });
}

function play(fleet: ExplainedFleet, one: Asked, cookie: string): Promise<Answer> {
  const port = fleet.port(one.gateway, 'play');
  const host = `127.0.0.1:${port}`;
  return call({
    ...{ port, host, method: 'POST', path: '/api/chat', body: bodyOf(one) },
    headers: { origin: `http://${host}`, cookie: `__Host-headgate-visitor-${port}=${cookie}` },
  });
}

/** A new visitor's cookie. */
export async function newVisitor(fleet: ExplainedFleet): Promise<string> {
  const port = fleet.port(0, 'play');
  const host = `127.0.0.1:${port}`;
  const headers = { origin: `http://${host}` };
  const { fields } = await call({ port, host, method: 'POST', path: '/api/visitor', body: {}, headers });
  return /=([^;]+)/.exec(fields['set-cookie'] ?? '')?.[1] ?? '';
}

/** A stream that its node never ends. */
export interface Held {
  readonly answer: Pick<Answer, 'status' | 'fields' | 'content'>;
  /** The client leaves, and the gateway knows. */
  close(): Promise<void>;
}

/** Resolves once some of the answer has come, or all of a refusal. */
export async function hold(fleet: ExplainedFleet, one: Asked, cookies: readonly string[]): Promise<Held> {
  const isPlay = one.visitor !== undefined;
  const port = fleet.port(one.gateway, isPlay ? 'play' : 'api');
  const host = `127.0.0.1${isPlay ? `:${port}` : ''}`;
  const cookie = `__Host-headgate-visitor-${port}=${cookies[one.visitor ?? 0]}`;
  const own = isPlay ? { origin: `http://${host}`, cookie } : credentials(fleet, one);
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const path = isPlay ? '/api/chat' : paths.chat;
    const headers = { host, 'content-type': 'application/json', ...own };
    const outgoing = request(
      { port, host: '127.0.0.1', method: 'POST', path, headers, agent: false },
      resolve,
    );
    outgoing.on('error', reject);
    outgoing.end(JSON.stringify({ ...bodyOf(one), stream: true }));
  });
  const { statusCode: status = 0, headers } = response;
  let content = '';
  response.on('error', () => undefined);
  await new Promise<void>((resolve) => {
    response.on('data', (piece: Buffer) => {
      content += piece.toString();
      if (status === 200) resolve();
    });
    response.on('close', resolve);
  });
  const closed = new Promise<void>((resolve) => {
    if (response.closed) resolve();
    else response.on('close', resolve);
  });
  return {
    answer: { status, fields: { 'x-request-id': String(headers['x-request-id']) }, content },
    close: async () => {
      response.destroy();
      await closed;
    },
  };
}

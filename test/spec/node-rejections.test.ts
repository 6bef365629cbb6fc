/**
 * Tests "Errors 2", "Errors 3" and "Errors 6" of the specification for errors that engines report. If an error concerns the
 * request, callers get it on every host. Only an error that concerns the node counts as an outage. The error texts come from
 * real engines.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { RefusalType } from '../../schemas/api/refusals.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, call, chat, expectRefusal } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';

let fleet: TestFleet;
let port: number;
const keys = { cedar: '', acme: '' };
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  port = fleet.port();
  keys.cedar = (await fleet.key('cedar')).value;
  keys.acme = (await fleet.key('acme')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(parseBehaviour({}));
});

const hosts = {
  'the shared host': { node: 'pool-1', key: 'cedar', model: 'echo-small', host: '127.0.0.1' },
  'a stack host': { node: 'acme-s1', key: 'acme', model: 'echo-large', host: stackHost('otter') },
} as const;
type Host = keyof typeof hosts;

function spoil(node: (typeof hosts)[Host]['node'], fault: object): void {
  fleet.nodes[node].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
}

async function answerOf(at: Host, fault: object, more = {}): Promise<Answer> {
  const { node, key, model, host } = hosts[at];
  spoil(node, fault);
  return chat({ port, key: keys[key], model, host, more });
}

const vllm = (message: string) => ({ error: { message, type: 'BadRequestError', param: null, code: 400 } });
const flat = (message: string) => ({ object: 'error', message, type: 'BadRequest', param: null, code: 400 });
const llama = (message: string) => ({ error: { code: 400, message, type: 'invalid_request_error' } });
const ollama = (message: string) => ({ error: { message, type: 'api_error', param: null, code: null } });

/** Each row contains an engine's status and body, then the reason that callers read, or '' if the gateway has none. */
const rejections: readonly (readonly [status: number, body: unknown, reason: string])[] = [
  [
    400,
    vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    'tools are not enabled',
  ],
  [400, ollama('registry.ollama.ai/library/tiny:latest does not support tools'), 'tools are not enabled'],
  [400, llama('tools param requires --jinja flag'), 'tools are not enabled'],
  [
    400,
    vllm('Conversation roles must alternate user/assistant/user/assistant/...'),
    'roles of its messages must alternate',
  ],
  [
    500,
    llama('After the optional system message, conversation roles must alternate user and assistant roles'),
    'roles of its messages must alternate',
  ],
  [400, vllm('System role not supported'), 'does not accept system messages'],
  [400, vllm('The model does not support Chat Completions API'), 'does not answer chats'],
  [400, flat('Assistant tool call function.arguments must be valid JSON.'), 'arguments of a tool call'],
  [400, llama('logprobs is not supported with tools + stream'), 'logprobs'],
  [
    500,
    llama('Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] secret'),
    'arguments of a tool call',
  ],
  [500, llama('Jinja Exception: secret'), 'template does not accept'],
  [500, { error: 'template: :3:20: executing "" at <.secret>: nil' }, 'template does not accept'],
  [500, llama('Failed to load image or audio file'), 'an image of the request'],
  [500, ollama('Failed to create new sequence: image: unknown format'), 'an image of the request'],
  [500, vllm("'utf-8' codec can't encode character '\\ud800': surrogates not allowed"), 'not valid Unicode'],
  [500, vllm("Expecting ',' delimiter: line 1 column 15 (char 14)"), 'JSON in the request cannot be read'],
  [500, llama('failed to parse grammar'), 'a schema in the request'],
  [500, vllm('The request has an unsupported json schema: secret'), 'a schema in the request'],
  [413, '<html><h1>413 Request Entity Too Large</h1>secret</html>', 'larger than its server accepts'],
  [501, '<html>secret Not Implemented</html>', ''],
  [422, { detail: [{ type: 'missing', loc: ['body', 'secret'], msg: 'Field required' }] }, ''],
  [400, { detail: 'what nobody knows of secret' }, ''],
  [400, 'secret, and no JSON', ''],
  [400, flat('secret of an engine to come'), ''],
];

test.each(Object.keys(hosts) as Host[])(
  'Errors 2, Errors 3, Errors 6: on %s an engine’s objection to the request is 400, with reason but not its words',
  async (at) => {
    for (const [status, body, reason] of rejections) {
      const { message } = expectRefusal(
        await answerOf(at, { kind: 'status', status, body }),
        'UnsupportedShapeError',
      );
      expect(message).toContain(reason);
      expect(message).not.toMatch(/secret|--|Assistant|jinja|registry|alternate user\/|Completions/);
      expect(message.includes(':')).toBe(reason !== '');
    }
  },
);

test('Errors 2: an engine’s objection within a stream, before its first event, is also 400', async () => {
  const body =
    'data: {"error":{"message":"Conversation roles must alternate","type":"BadRequestError","code":400}}\n\ndata: [DONE]\n\n';
  const text = `=== RESPONSE\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ${body.length}\r\n\r\n${body}\n=== END eof; 0`;
  const answer = await answerOf('the shared host', { kind: 'replay', text }, { stream: true });
  expect(expectRefusal(answer, 'UnsupportedShapeError').message).toContain('must alternate');
});

test('Errors 2: an engine’s objection to embeddings is also 400', async () => {
  spoil('acme-s1', {
    kind: 'status',
    status: 501,
    body: llama('This server does not support embeddings. Start it with `--embeddings`'),
  });
  const answer = await call({
    port,
    host: stackHost('otter'),
    key: keys.acme,
    method: 'POST',
    path: '/v1/embeddings',
    body: { model: 'echo-embed', input: 'a' },
  });
  expect(expectRefusal(answer, 'UnsupportedShapeError').message).toContain('does not create embeddings');
});

test.each([401, 403, 404, 408, 429, 500, 502, 503, 529])(
  'Errors 3, Errors 6: a node answering %s has failed, whatever it says; no other is asked, and the place stays',
  async (status) => {
    for (const [at, type] of [
      ['the shared host', 'InferenceUnavailableError'],
      ['a stack host', 'TargetNotServingError'],
    ] as const satisfies readonly (readonly [Host, RefusalType])[]) {
      const asked = await askedDuring(fleet, async () => {
        const body = vllm('secret of the engine');
        const { message } = expectRefusal(await answerOf(at, { kind: 'status', status, body }), type);
        expect(message).not.toContain('secret');
      });
      expect(asked).toEqual({ [hosts[at].node]: 1 });
    }
  },
);

test.each(Object.keys(hosts) as Host[])(
  'Errors 8, Errors further rule 1: on %s a prompt beyond a node’s window is 413 and names the tier',
  async (at) => {
    const body = vllm(
      "This model's maximum context length is 1024 tokens. However, your prompt contains more",
    );
    const answer = await answerOf(at, { kind: 'status', status: 400, body });
    const { message } = expectRefusal(answer, 'ContextWindowExceededError');
    expect(message).toContain(at === 'a stack host' ? 'Platinum tier' : 'Starter tier');
    expect(message).toContain('1024');
  },
);

/**
 * Generates the answers of a hostile node: heads, streams and bodies in the style of real engines, mutated at every level,
 * from event JSON, stream lines and HTTP framing to the delivery of the bytes.
 */

import type { InferenceKind } from '../../schemas/api/operations.ts';
import type { Draw, Json } from './draw.ts';
import type { NodePlan } from './hostile-node.ts';
import { jsonText, mutateBytes, mutateJson } from './mutate.ts';

/** Secret text in a node's errors and headers. No client and no log may ever contain it. */
export const nodeSecret = 'node-secret-51e0aa97';

export interface AnswerPlan {
  readonly operation: InferenceKind;
  readonly stream: boolean;
  readonly model: string;
}

const finishes = [
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'function_call',
  'abort',
  null,
  7,
  '',
  'STOP',
];

function usage(draw: Draw): Json {
  return draw.weighted<Json>([
    [6, { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }],
    [1, { prompt_tokens: draw.number(), completion_tokens: draw.number() }],
    [1, null],
    [1, draw.json()],
  ]);
}

function toolCalls(draw: Draw): Json {
  return draw.list(draw.between(1, 3), (index) => ({
    index: draw.chance(0.8) ? index : draw.number(),
    ...(draw.chance(0.7) && { id: draw.pick(['call_1', 'functions.tool_1:0', '', draw.text()]) }),
    type: 'function',
    function: {
      ...(draw.chance(0.7) && { name: 'tool_1' }),
      arguments: draw.pick(['{', '}', '{}', '{"a":1}', '"', draw.text()]),
    },
  }));
}

function words(draw: Draw): Json {
  return draw.weighted<Json>([
    [6, { content: draw.text() }],
    [2, { reasoning_content: draw.text() }],
    [1, { reasoning: draw.text(), content: null }],
    [1, { tool_calls: toolCalls(draw) }],
    [1, { refusal: draw.text() }],
    [1, {}],
  ]);
}

function chunk({ model }: AnswerPlan, choices: Json): Json {
  return { id: `chatcmpl-${nodeSecret}`, object: 'chat.completion.chunk', created: 1, model, choices };
}

function choiceOf(draw: Draw, delta: Json, finish: Json): Json {
  return {
    index: draw.chance(0.97) ? 0 : draw.number(),
    delta,
    logprobs: draw.chance(0.9) ? null : draw.json(),
    finish_reason: finish,
  };
}

function events(draw: Draw, wanted: AnswerPlan): string[] {
  const chunks: Json[] = [chunk(wanted, [choiceOf(draw, { role: 'assistant', content: '' }, null)])];
  chunks.push(...draw.list(draw.skewed(12), () => chunk(wanted, [choiceOf(draw, words(draw), null)])));
  chunks.push(chunk(wanted, [choiceOf(draw, {}, draw.chance(0.8) ? 'stop' : draw.pick(finishes))]));
  if (draw.chance(0.7)) chunks.push({ ...(chunk(wanted, []) as object), usage: usage(draw) });
  if (draw.chance(0.1))
    chunks.splice(draw.below(chunks.length), 0, { error: { message: nodeSecret, code: 500 } });
  const mutated = draw.chance(0.4)
    ? chunks.map((one) => (draw.chance(0.25) ? mutateJson(draw, one, 0.9) : one))
    : chunks;
  const data = mutated.map((one) => (draw.chance(0.95) ? JSON.stringify(one) : jsonText(draw, one)));
  if (draw.chance(0.9)) data.push('[DONE]');
  if (draw.chance(0.1))
    data.splice(
      draw.below(data.length + 1),
      0,
      draw.pick(['[DONE]', '', ' ', 'null', '[]', nodeSecret, '{']),
    );
  if (draw.chance(0.02)) data.splice(draw.below(data.length), 0, hugeEvent(draw, wanted));
  return data;
}

function hugeEvent(draw: Draw, wanted: AnswerPlan): string {
  const text = 'h'.repeat(draw.pick([60_000, 1_048_000, 1_100_000, 3_000_000]));
  return JSON.stringify(chunk(wanted, [choiceOf(draw, { content: text }, null)]));
}

function stream(content: Draw, draw: Draw, wanted: AnswerPlan): string {
  const end = draw.weighted([
    [12, '\n'],
    [2, '\r\n'],
    [1, '\r'],
  ]);
  const lines = events(content, wanted).map((data) =>
    draw.weighted([
      [30, `data: ${data}${end}${end}`],
      [2, `data:${data}${end}${end}`],
      [1, `: comment ${nodeSecret}${end}${end}data: ${data}${end}${end}`],
      [1, `event: message${end}id: ${nodeSecret}${end}retry: 1${end}data: ${data}${end}${end}`],
      [1, `event: error${end}data: ${data}${end}${end}`],
      [1, `data: ${data}${end}data: ${data}${end}${end}`],
      [1, `data: ${data}${end}`],
      [1, `${data}${end}${end}`],
      [1, `data${end}${end}`],
    ]),
  );
  return `${draw.chance(0.02) ? '\ufeff' : ''}${lines.join('')}`;
}

function whole(draw: Draw, { operation, model }: AnswerPlan): string {
  const message = { role: 'assistant', ...(words(draw) as object) };
  const finish = draw.chance(0.85) ? 'stop' : draw.pick(finishes);
  const chat: Json = {
    id: `chatcmpl-${nodeSecret}`,
    object: 'chat.completion',
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finish }] as Json,
    usage: usage(draw),
  };
  const vector = (): Json => draw.list(draw.skewed(50), () => draw.number());
  const embeddings: Json = {
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: draw.chance(0.8) ? vector() : 'AAAAAA==' }],
    model: nodeSecret,
    usage: usage(draw),
  };
  const score = (index: number): Json => ({
    index,
    relevance_score: draw.chance(0.9) ? index : draw.number(),
  });
  const scores = draw.list(draw.chance(0.9) ? 2 : draw.skewed(50), score);
  const rerank: Json = draw.chance(0.5) ? scores : { results: scores, usage: usage(draw) };
  const count: Json = draw.chance(0.7) ? { count: draw.number(), tokens: [] } : draw.json();
  const error: Json = { error: { message: nodeSecret, type: 'x', code: draw.number() }, object: 'error' };
  const answer = { chat, messages: chat, responses: chat, embeddings, rerank, 'count-tokens': count }[
    operation
  ];
  const drawn = draw.weighted<Json>([
    [8, answer],
    [1, error],
    [1, draw.json()],
  ]);
  if (draw.chance(0.01)) return `[${'[],'.repeat(draw.skewed(400_000))}1]`;
  if (draw.chance(0.01)) return '['.repeat(draw.skewed(500_000));
  return jsonText(draw, draw.chance(0.4) ? mutateJson(draw, drawn, 0.9) : drawn);
}

function statusLine(draw: Draw): string {
  return draw.weighted([
    [30, 'HTTP/1.1 200 OK'],
    [2, `HTTP/1.1 ${draw.pick([400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504])} ${nodeSecret}`],
    [1, `HTTP/1.1 ${draw.pick([201, 204, 205, 206, 226, 299, 300, 301, 304, 307, 600, 999, 99, 0])} x`],
    [1, 'HTTP/1.0 200 OK'],
    [
      1,
      draw.pick([
        'HTTP/2.0 200 OK',
        'HTTP/1.1 200',
        'HTTP/1.1  200 OK',
        'ICY 200 OK',
        '',
        'HTTP/1.1 2x0 OK',
        nodeSecret,
      ]),
    ],
  ]);
}

function interim(draw: Draw): string {
  const one = draw.pick([
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 102 Processing\r\n\r\n',
    'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n',
  ]);
  return one.repeat(draw.skewed(300));
}

function headers(draw: Draw, { stream: isStream }: AnswerPlan): string[] {
  const type = isStream ? 'text/event-stream' : 'application/json';
  const lines = [
    `content-type: ${draw.weighted([
      [20, type],
      [3, `${type}; charset=utf-8`],
      [1, 'text/html'],
      [1, 'application/json'],
      [1, 'text/event-stream'],
      [1, ''],
      [1, `${type};;;${'x'.repeat(draw.skewed(3000))}`],
    ])}`,
    `x-engine: ${nodeSecret}`,
  ];
  if (draw.chance(0.05))
    lines.push(
      draw.pick([
        ...['content-encoding: gzip', 'location: http://127.0.0.1:1/', 'connection: close'],
        ...['connection: upgrade', 'upgrade: h2c', 'keep-alive: timeout=0', 'set-cookie: a=b'],
        ...['trailer: x', 'retry-after: 9999'],
      ]),
    );
  if (draw.chance(0.03)) lines.push(...draw.list(draw.skewed(3000), (index) => `x-${index}: y`));
  if (draw.chance(0.02)) lines.push(`x-large: ${'z'.repeat(draw.skewed(200_000))}`);
  if (draw.chance(0.02)) lines.push(draw.pick([' folded', 'no colon', 'x\0: y', ': y', 'x: a\rb']));
  return lines;
}

/** Returns the body as framed bytes, with the header line that announces the framing. */
function framed(draw: Draw, body: Buffer): { readonly line: string | undefined; readonly bytes: Buffer } {
  return draw.weighted<() => { line: string | undefined; bytes: Buffer }>([
    [8, () => ({ line: 'transfer-encoding: chunked', bytes: chunked(draw, body) })],
    [5, () => ({ line: `content-length: ${body.length}`, bytes: body })],
    [1, () => ({ line: undefined, bytes: body })],
    [1, () => ({ line: `content-length: ${body.length + draw.between(-20, 20)}`, bytes: body })],
    [
      1,
      () => ({
        line: draw.pick([
          'content-length: -1',
          'content-length: 1, 2',
          'transfer-encoding: gzip',
          'content-length: 99999999999999',
        ]),
        bytes: body,
      }),
    ],
    [
      1,
      () => ({
        line: `transfer-encoding: chunked\r\ncontent-length: ${body.length}`,
        bytes: chunked(draw, body),
      }),
    ],
  ])();
}

function chunked(draw: Draw, body: Buffer): Buffer {
  const count = draw.chance(0.15) ? Math.min(body.length, 3000) : draw.between(1, 12);
  const pieces = body.length === 0 ? [] : draw.pieces(body, count);
  const parts = pieces.flatMap((piece) => [
    Buffer.from(`${piece.length.toString(16)}\r\n`),
    piece,
    Buffer.from('\r\n'),
  ]);
  const end = draw.weighted([
    [20, '0\r\n\r\n'],
    [1, ''],
    [1, '0\r\n'],
    [1, `0\r\nx-trailer: ${nodeSecret}\r\n\r\n`],
    [1, 'zz\r\n'],
    [1, '0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'],
  ]);
  return Buffer.concat([...parts, Buffer.from(end)]);
}

/**
 * Draws an answer. Each layer is either wild or calm, because a fault in an inner layer is reached only if the outer layers
 * are valid.
 */
export function drawNodePlan(draw: Draw, wanted: AnswerPlan): NodePlan {
  const layer = (): Draw => (draw.chance(0.4) ? draw : draw.calm());
  const content = layer();
  const text = wanted.stream ? stream(content, layer(), wanted) : whole(content, wanted);
  const drawn = Buffer.from(text, 'utf8');
  const body = layer().chance(0.2) ? mutateBytes(draw, drawn) : drawn;
  const { line, bytes } = framed(layer(), body);
  const heading = layer();
  const head = [statusLine(heading), ...headers(heading, wanted), ...(line === undefined ? [] : [line])];
  const early = heading.chance(0.1) ? interim(draw) : '';
  const all = Buffer.concat([Buffer.from(`${early}${head.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
  const wire = layer();
  return {
    ...delivery(wire, wire.chance(0.2) ? mutateBytes(draw, all) : all, line !== undefined),
    ...ending(wire, wanted),
  };
}

function delivery(draw: Draw, all: Buffer, isFramed: boolean): NodePlan {
  const isCut = draw.chance(0.25);
  const sent = isCut ? all.subarray(0, draw.below(all.length + 1)) : all;
  const pieces = sent.length === 0 ? [] : draw.pieces(sent, draw.chance(0.5) ? 1 : draw.between(2, 20));
  const end = draw.weighted([
    [isCut || !isFramed ? 0 : 8, isFramed ? 'keep' : 'close'],
    [4, 'close'],
    [2, 'reset'],
    [0.1, 'hang'],
  ] as const);
  return { pieces, pauseMs: draw.chance(0.3) ? draw.below(4) : 0, end };
}

function ending(draw: Draw, wanted: AnswerPlan): Pick<NodePlan, 'endless'> {
  return draw.chance(0.02) ? { endless: endless(draw, wanted) } : {};
}

function endless(draw: Draw, wanted: AnswerPlan): NonNullable<NodePlan['endless']> {
  const data = JSON.stringify(chunk(wanted, [choiceOf(draw, { content: 'more ' }, null)]));
  const piece = draw.pick([': comment\n\n', `data: ${data}\n\n`, 'x', ' '.repeat(10_000), '\n']);
  const framedPiece = `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`;
  return { piece: Buffer.from(draw.chance(0.7) ? framedPiece : piece), times: draw.skewed(1500) };
}

/** Mutations of what a request passes before it is forwarded: HTTP, body, JSON, shape, admission, context and control flow. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const requestMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/surfaces/chat/shape-chat.ts',
    ['data-plane/surfaces/chat/shape-chat.test.ts'],
    [
      [
        'unknown fields are refused',
        'if (!parsed.success) throw refusalOf(parsed.error);\n  return parsed.data;',
        'return (parsed.data ?? value) as never;',
      ],
      [
        'the smaller of two limits of tokens counts',
        'Math.min(fields.max_tokens',
        'Math.max(fields.max_tokens',
      ],
      ['a stream has to be asked for', 'stream: fields.stream === true', 'stream: fields.stream !== false'],
      ['as many answers as were asked for', 'choices: fields.n ?? 1', 'choices: 1'],
      [
        'stream_options needs stream',
        'fields.stream_options !== undefined && fields.stream !== true',
        'false',
      ],
      ['top_logprobs needs logprobs', ' && fields.logprobs !== true', ' && fields.logprobs === false'],
      [
        'tool_choice needs tools',
        "if (tools === undefined) throw shapeRefusal(['tool_choice'], 'needs tools');",
        'if (tools === undefined) return;',
      ],
      ['a named tool is one of the tools', '!tools.some(', 'false && !tools.some('],
      ['a call of a tool must be answered', 'last.tool_calls !== undefined)', 'last.tool_calls === null)'],
      [
        'without tools there is nothing to choose',
        "  if (fields.tools !== undefined) {\n    body['tools']",
        "  {\n    body['tools']",
      ],
      ['what says nothing is not carried', ' && given[name] !== unsaid', ''],
      ['images are a need', "if (fields.messages.some(hasImage)) needs.push('images');", ''],
      ['a prefill is a need', "needs.push('prefill')", 'needs.push()'],
      ['one call at a time is a need', "needs.push('single_tool_call')", 'needs.push()'],
    ],
  ),
  ...of(
    'data-plane/shape/json-body.ts',
    ['data-plane/surfaces/shapes.test.ts'],
    [
      [
        'a body is an object',
        "typeof value !== 'object' || value === null || Array.isArray(value)",
        "typeof value !== 'object' || value === null",
      ],
      [
        'a body says that it is JSON',
        'if (isJson(contentType)) return;',
        'if (isJson(contentType) || contentType === undefined) return;',
      ],
      ['no charset but UTF-8', "name !== 'charset' ||", "name !== '' ||"],
    ],
  ),
  ...of(
    'data-plane/surfaces/embeddings/shape-embeddings.ts',
    ['data-plane/surfaces/chat/shape-chat.test.ts'],
    [
      ['token ids are known as such', "tokenInput: typeof first !== 'string'", 'tokenInput: false'],
      ['one list of tokens is one input', " || typeof first === 'number' ? 1", ' ? 1'],
      ['the encoding is as asked', "encoding_format ?? 'float'", "(encoding_format && 'float') ?? 'float'"],
      [
        'dimensions are carried',
        'dimensions === undefined ? {} : { dimensions }',
        'dimensions === undefined ? {} : {}',
      ],
    ],
  ),
  ...of(
    'data-plane/core/json-text.ts',
    ['data-plane/core/json-text.test.ts'],
    [
      ['a body is UTF-8', "if (!isUtf8(raw)) throw fault('the body is not valid UTF-8');", ''],
      ['no name twice', '!== counts.names', '< 0'],
      ['no __proto__', "if (name === '__proto__') throw fault('a name in the body is not allowed');", ''],
      ['no half surrogate in a value', 'if (this.#surrogates) refuseLoneSurrogate(value);', ''],
      ['no half surrogate in a name', 'if (this.#surrogates) refuseLoneSurrogate(name);', ''],
      ['nesting is bounded', "case 'depth':\n", "case 'depth':\n      return { text, counts };\n"],
    ],
  ),
  ...of(
    'shared/runtime/request-body.ts',
    ['data-plane/http/body.test.ts'],
    [
      [
        'a body that was read keeps its memory until its release',
        'this.#held = this.bytes.allocatedBytes;',
        'this.#bounds.memory.release(this.bytes.allocatedBytes);',
        'the bytes of a large body',
      ],
      [
        'a release gives the memory back',
        '    this.#bounds.memory.release(this.#held);\n',
        '',
        'in chunks of 65521 bytes',
      ],
      [
        'a client that leaves gives its memory back',
        '    this.#bounds.memory.release(this.bytes.allocatedBytes);\n    this.bytes.clear();',
        '    this.bytes.clear();',
        'whose client leaves',
      ],
      [
        'memory for bodies is bounded',
        'if (!this.#awaitTurn() || !this.bytes.add(piece)) this.#refuse(memory.shortage);',
        'return;',
        'budget of all',
      ],
      [
        'a body that is too slow is not waited for',
        "if (this.#isWarned) this.#refuse('slow');",
        '',
        'comes too slowly',
      ],
      [
        'the first span is judged by nothing',
        'this.#judgedMs = pace.ticker.nowMs + pace.ms;',
        'this.#bytesWanted = 1e9; this.#judgedMs = 0;',
        'comes too slowly',
      ],
    ],
  ),
  ...of(
    'shared/runtime/byte-budget.ts',
    ['data-plane/http/body.test.ts'],
    [
      [
        'all owners together have no more than all',
        'this.#usedBytes + bytes > this.#bytesMax',
        'bytes < 0',
        'budget of all',
      ],
      ['what is given back is free for all', 'this.#usedBytes -= bytes;', '', 'whose client leaves'],
    ],
  ),
  ...of(
    'shared/runtime/byte-budget.ts',
    ['data-plane/http/held-bodies.test.ts'],
    [
      [
        'an owner has a share only',
        'share.usedBytes + bytes > this.#shareBytesMax || share.waiting.length > 0',
        'share.waiting.length > 0',
        'wait in their order',
      ],
      ['no large body overtakes one that waits', ' || share.waiting.length > 0', '', 'overtakes it'],
      [
        'the share is of one owner',
        'of(owner: string): SharedBudget {',
        "of(owner: string): SharedBudget {\n    owner = 'all';",
        'overtakes it',
      ],
      ['what an owner releases is free again', 'share.usedBytes -= bytes;', '', 'wait in their order'],
      [
        'the refusal is true of whose memory ran out',
        "result === 'spent' ? 'share' : 'memory'",
        "'memory'",
        'does not come in time',
      ],
      [
        'those that wait are bounded',
        'share.waiting.length >= waitingMax',
        'waitingMax < 0',
        'bounded number',
      ],
      ['one body at a time exceeds the share', 'share.beyond !== undefined || ', '', 'wait in their order'],
      ['one body may exceed the share', 'if (!fits && (', 'if (!fits || (', 'come to their end'],
      [
        'the next may exceed the share once the one before is done',
        'if (share.beyond === body) share.beyond = undefined;',
        '',
        'wait in their order',
      ],
    ],
  ),
  ...of(
    'shared/runtime/request-body.ts',
    ['data-plane/http/held-bodies.test.ts'],
    [
      [
        'a connection whose body waits is not read',
        'request.socket.pause();',
        'return;',
        'wait in their order',
      ],
      ['nor is it read again by its request', 'request._read = readNothing;', '', 'wait in their order'],
      ['a wait has an end', 'nowMs >= this.#turnByMs) this', 'nowMs < 0) this', 'does not come in time'],
      [
        'a wait is not the client’s',
        '    if (this.#turnByMs !== undefined) {\n      this.#bounds.share?.admit();',
        '    if (this.#bytesMax < 0) {\n      this.#bounds.share?.admit();',
        'is not judged',
      ],
      ['small bodies need no turn', 'this.#bytesMax <= turnlessBytesMax || ', '', 'overtakes it'],
      [
        'what was granted and not used is free again',
        'if (this.#granted > 0) this.#bounds.memory.release(this.#granted);',
        '',
        'in chunks waits',
      ],
    ],
  ),
  ...of(
    'data-plane/http/answers.ts',
    ['data-plane/http/body.test.ts'],
    [
      [
        'an encoded body is refused',
        "if (encoding === undefined || encoding === '' || encoding === 'identity') return;",
        'if (encoding !== null) return;',
        'encoded body is refused by the name of the header: /v1/chat',
      ],
      [
        'identity is no encoding',
        " || encoding === 'identity'",
        '',
        'encoded body is refused by the name of the header: /v1/chat',
      ],
    ],
  ),
  ...of(
    'data-plane/request/token-budget.ts',
    ['data-plane/request/reserve.test.ts'],
    [
      [
        'only the node that has the text may answer',
        'return { tokens, candidates: [route] };',
        'return { tokens, candidates };',
      ],
      [
        'a node that has the text and gives no count is the only one',
        'if (sent || tokens !== undefined)',
        'if (tokens !== undefined)',
      ],
      ['a node without a connection is left aside', "reached ? 'neutral' : 'unreached'", "'neutral'"],
      ['a node is busy while it counts', 'load.begin(route.node);', ''],
      ['embeddings are not counted', "asked.kind === 'chat' ? candidates : []", 'candidates'],
      ['no more than was asked', 'return Math.min(asked, likely);', 'return likely;'],
      ['no more than there is room for', 'return Math.min(asked, likely);', 'return asked;'],
      ['a limit of tokens is always set', 'return asked ?? answerTokensDefault;', 'return asked ?? 0;'],
      ['at least one token', 'Math.max(1, windowTokens - promptEstimate)', 'windowTokens - promptEstimate'],
      ['nothing asked, nothing refused', 'Math.ceil(windowTokens / 4)));', 'windowTokens));'],
      [
        'what may not fit is counted',
        'promptBound + (asked ?? Math.ceil(windowTokens / 4)) > windowTokens',
        'promptBound > windowTokens',
      ],
      ['the smaller of two limits', 'return Math.min(a, b);', 'return Math.max(a, b);'],
    ],
  ),
  ...of(
    'data-plane/request/handle.ts',
    ['data-plane/play/play-api.test.ts'],
    [
      [
        'bodies are charged to their owner',
        'gateway.bodies.of(owner)',
        "gateway.bodies.of('all')",
        'bodies of all visitors',
      ],
    ],
  ),
  ...of(
    'data-plane/request/handle.ts',
    ['data-plane/http/body.test.ts'],
    [
      [
        'an encoded body is refused',
        '  refuseEncoded(exchange.head);\n',
        '',
        'encoded body is refused by the name of the header: /v1/chat',
      ],
    ],
  ),
  ...of(
    'shared/snapshot/lookup.ts',
    ['shared/snapshot/lookup.test.ts'],
    [
      [
        'only what is installed is served',
        'isInstalled(place, model) ? routes.all(place, model).map(routeOf) : []',
        'routes.all(place, model).map(routeOf)',
      ],
      ['only what is installed is listed', '.filter(({ id }) => isInstalled(place, id))', ''],
    ],
  ),
];

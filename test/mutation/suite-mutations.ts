/**
 * Mutations of the modules that the golden decisions do not reach: shapes, dialects, forwarding, streams, the meter and
 * the control flow. Each breaks one rule; the tests named with it must notice. A text that moves on fails loudly.
 */
import { anthropicMutations } from './suite-mutations-anthropic.ts';
import { attemptMutations } from './suite-mutations-attempts.ts';
import { claimsMutations } from './suite-mutations-claims.ts';
import { dialectMutations } from './suite-mutations-dialect.ts';
import { explainMutations } from './suite-mutations-explain.ts';
import { forwardMutations } from './suite-mutations-forward.ts';
import { handleMutations } from './suite-mutations-handle.ts';
import { operateMutations } from './suite-mutations-operate.ts';
import { playMutations } from './suite-mutations-play.ts';
import { requestMutations } from './suite-mutations-request.ts';
import { threadsMutations } from './suite-mutations-threads.ts';
import { upstreamMutations } from './suite-mutations-upstream.ts';
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const answerTests = 'data-plane/surfaces/answers.test.ts';
const streamTests = [answerTests, 'data-plane/surfaces/chat/chat-stream.test.ts'];

const streams = [
  ...of('data-plane/answer/node-stream.ts', streamTests, [
    [
      'every choice must finish before the terminator counts',
      'finish === undefined) {\n        throw',
      'index < 0) {\n        throw',
    ],
    ['the terminator completes a stream', "this.#state = 'completed';", ''],
    ['an error ends a stream', '    refuseError(chunk);\n', ''],
    [
      'a chunk has choices',
      "if (!Array.isArray(choices)) throw malformed('a chunk has no choices');",
      'if (!Array.isArray(choices)) return [];',
    ],
    [
      'the empty chunk of a lost runner ends a stream',
      "if (member(chunk, 'model') === '') throw",
      "if (member(chunk, 'model') === null) throw",
    ],
    [
      'a chunk without choices does not start an answer',
      "if (choices.length > 0) this.#state = 'streaming';",
      "this.#state = 'streaming';",
    ],
    [
      'a choice that was not asked for is refused',
      'index === undefined || index >= this.#facts.choices',
      'index === undefined',
    ],
    [
      'the last usage counts',
      "readUsage(member(chunk, 'usage'), this.#facts.most) ?? this.#usage",
      "this.#usage ?? readUsage(member(chunk, 'usage'), this.#facts.most)",
    ],
    [
      'nothing follows the finish of a choice',
      "if (!isEmpty) throw malformed('a choice continued after its end');",
      '',
    ],
    [
      'a clean end without a terminator is a failure',
      "this.fail(new NodeFailure('cut', 'the stream ended without its terminator'));",
      '',
    ],
    [
      'an ended stream stays ended',
      "if (this.#state === 'completed' || this.#state === 'failed') return;\n    this.#state = 'failed';",
      "this.#state = 'failed';",
    ],
    [
      'nothing is read after the end',
      "if (this.#state === 'completed' || this.#state === 'failed') return [];",
      '',
    ],
    [
      'log probabilities pass only where they were asked for',
      'const logprobs = this.#facts.logprobs\n',
      'const logprobs = this.#facts\n',
    ],
    [
      'an estimate counts what was delivered',
      'this.#completionBytes += outputBytes({ content, reasoning, refusal, toolCalls })',
      'this.#completionBytes += 0',
    ],
  ]),
  ...of('data-plane/surfaces/chat/chat-stream.ts', streamTests, [
    ['the terminator is sent', "      frames.push('data: [DONE]\\n\\n');\n", ''],
    ['usage is sent only where it was asked for', 'if (this.#includeUsage) {', 'if (this.#node) {'],
    [
      'the terminator is sent once',
      "if (before !== 'completed' && this.#node.state === 'completed')",
      "if (this.#node.state === 'completed')",
    ],
    [
      'the first delta names the role',
      "{ role: 'assistant', content: toolCalls === undefined ? '' : null }",
      '{}',
    ],
    ['a tool call opens with id and name', 'opened === undefined\n', 'index >= 0\n'],
    ['reasoning is carried', '...(reasoning === undefined ? {} : { reasoning_content: reasoning }),', ''],
    ['a finish reason is carried', 'finish_reason: delta.finish ?? null', 'finish_reason: null'],
  ]),
  ...of('data-plane/answer/tool-call-deltas.ts', streamTests, [
    [
      'a call without a name is refused',
      "if (name === undefined) throw malformed('a tool call has no name');",
      'if (name === undefined) return { index: 0, arguments: added };',
    ],
    ['the number of calls is bounded', 'if (this.#opened === toolCallsMax)', 'if (this.#opened < 0)'],
    [
      'only the first call passes where one was asked for',
      'delta.index === 0 || !this.#options.firstOnly',
      'delta.index >= 0',
    ],
    ['a new id under a known number is a new call', 'id !== known.givenId)', 'id === null)'],
  ]),
  ...of(
    'data-plane/answer/sse-reader.ts',
    ['data-plane/answer/sse-reader.test.ts'],
    [
      [
        'an error event ends the stream',
        "if (event === 'error') this.#fail(reportedError());\n    else ",
        '',
      ],
      ['an error field ends the stream', "if (field === 'error') this.#fail(reportedError());", ''],
      ['characters may be cut between chunks', '{ stream: true }', '{ stream: false }'],
      ['one event is bounded', 'maxBufferSize: eventCharactersMax,', ''],
    ],
  ),
];

const messagesStreams = of(
  'data-plane/surfaces/messages/messages-stream.ts',
  [answerTests, 'data-plane/surfaces/messages/messages.test.ts'],
  [
    ['a message opens once', '!this.#hasStarted)', 'this.#node)'],
    ['a message opens before its blocks', 'frames.unshift(', 'frames.push('],
    [
      'a completed stream stops its message',
      "if (this.#node.state === 'completed') frames.push(...this.#end());",
      '',
    ],
    [
      'the stop sequence is named',
      'stopSequences.length === 0 ? undefined : finishedChoice(data)',
      'undefined',
    ],
    [
      'thinking is a block of its own',
      "this.#blocks.addText('thinking', reasoning)",
      "this.#blocks.addText('text', reasoning)",
    ],
    ['a refusal is text', "if (refusal !== undefined) this.#blocks.addText('text', refusal);", ''],
    ['usage ends a message', 'usage: deltaUsage(this.usage)', 'usage: null'],
  ],
);

const rebuilding = of(
  'data-plane/surfaces/chat/rebuild-chat.ts',
  [answerTests, 'data-plane/surfaces/chat/rebuild-chat.test.ts'],
  [
    ['an error under a 200 is a failure', '  refuseError(answer);\n', ''],
    ['as many choices as were asked for', ' || choices.length !== facts.choices', ''],
    ['each choice has an index of its own', ' || rebuilt[index] !== undefined', ''],
    [
      'a choice has a message',
      "if (typeof message !== 'object' || message === null) throw malformed('a choice has no message');",
      '',
    ],
    ['usage of the node counts', "readUsage(member(answer, 'usage'), facts.most) ??", 'undefined ??'],
    ["the id is the answer's own", 'id: completionId(facts),', "id: member(answer, 'id'),"],
    ['the model is named as asked', 'model: facts.model,', "model: member(answer, 'model'),"],
    ['a cut call is not shown as text', "finish === 'length' && facts.tools", 'false'],
    ['the number of calls is bounded', 'if (calls.length > toolCallsMax)', 'if (calls.length < 0)'],
    [
      'only the first call passes where one was asked for',
      'facts.firstToolCallOnly ? calls.slice(0, 1) : calls',
      'calls',
    ],
  ],
);

const plainChat = of(
  'data-plane/surfaces/chat/plain-chat.ts',
  ['data-plane/surfaces/chat/plain-chat.test.ts'],
  [
    ['an unknown field is left to the schema', '?.(body[name]) !== true', '?.(body[name]) === false'],
    ['a message has no third field', ' || Object.keys(entry).length !== 2', ''],
    ['a chat has messages', 'value.length === 0 || ', ''],
  ],
);

const backlog = of(
  'data-plane/usage/backlog.ts',
  ['data-plane/usage/meter.test.ts'],
  [
    ['a wait that ends has decided', '        this.#isLate();\n', '', 'though nobody else asks'],
    [
      'a row that is on the disk is no longer waited for',
      'if (durable > this.#durable) this.#waitingSinceMs = nowMs;',
      '',
    ],
    ['rows that wait are bounded', 'waiting >= waitingRowsMax', 'false'],
    ['a full outbox refuses', 'this.#monotonicMs() - this.#workerFullSinceMs > waitingMsMax', 'false'],
    ['rows in no file hold requests back', 'unkept >= unkeptRows || ', '', 'the spool is behind'],
    [
      'a spool that is late holds requests back',
      'if (unkept > 0 && nowMs - ',
      'if (unkept < 0 && nowMs - ',
      'the spool is behind',
    ],
    [
      'rows out of the database hold requests back',
      ' || waiting >= unwrittenRows',
      '',
      'the database is behind',
    ],
    [
      'a database that is late holds requests back',
      'return nowMs - this.#waitingSinceMs > unwrittenMs',
      'return false',
      'the database is behind',
    ],
    [
      'a wait for the worker ends',
      'late = setTimeout(() => this.#release(), ',
      'late = setTimeout(() => undefined, ',
    ],
    ['a slow disk refuses', 'return waiting > 0 && this.#isLate();', 'return false;'],
  ],
);

const meter = of(
  'data-plane/usage/meter.ts',
  ['data-plane/usage/meter.test.ts'],
  [
    ['a row counts at once', '    for (const amount of amountsOf(row)) this.#count(amount, 1);\n', ''],
    ['a settled row counts once', 'this.#count(amount, -1)', 'this.#count(amount, 1)'],
    ['the rows of visitors do not wait', 'return isVisitor;', 'return false;', 'near the end, and for'],
    [
      'use near the end does not wait',
      'return isNearEnd(2 * unsent,',
      'return isNearEnd(-1,',
      'near the end, and for',
    ],
    ['an adjustment counts', 'this.#options.adjustmentOf?.(organisation, period) ?? 0', '0'],
    ['an adjustment gives no more than was used', 'Math.max(used + (', 'Math.max(used, used + ('],
    [
      'a total that comes answers those who wait',
      '    for (const resolve of waiters ?? []) resolve();\n',
      '',
    ],
    ['a wait for a total ends', '        resolve(false);\n', ''],
    ['one late total is not forgotten by the others', 'waiters.delete(onTotal);', 'this.#waiters.clear();'],
    [
      'visitors have an account of their own',
      'const own = [accountOfVisitor(visitor, atMs),',
      "const own = [accountOfVisitor('v', atMs),",
    ],
  ],
);

const counters = of(
  'data-plane/request/counters.ts',
  ['data-plane/request/counters.test.ts'],
  [
    ['a place is given back once', 'if (!isHeld) return false;', ''],
    [
      'a request counts in its minute',
      'if (minute?.startMs === startMs) minute.used++;',
      'if (minute?.startMs === startMs) minute.used += 0;',
    ],
    ['a new minute begins at nothing', 'minute?.startMs === startMs ? minute.used : 0', 'minute?.used ?? 0'],
    ['weights are held', 'this.inFlight(subject) + weight)', 'this.inFlight(subject) + 1)'],
    ['past minutes are forgotten', 'this.#minutes.delete(subject);', ';'],
  ],
);

export const suiteMutations: readonly SuiteMutation[] = [
  ...streams,
  ...messagesStreams,
  ...rebuilding,
  ...plainChat,
  ...backlog,
  ...meter,
  ...counters,
  ...claimsMutations,
  ...explainMutations,
  ...anthropicMutations,
  ...dialectMutations,
  ...forwardMutations,
  ...attemptMutations,
  ...handleMutations,
  ...operateMutations,
  ...playMutations,
  ...requestMutations,
  ...threadsMutations,
  ...upstreamMutations,
];

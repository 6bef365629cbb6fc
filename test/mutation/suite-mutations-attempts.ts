/** Mutations of a request to a node: the choice of a node, one attempt, and its streamed or whole answer. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const asForward = ['data-plane/forward/forward.test.ts'];
const asWalk = ['data-plane/forward/attempt.test.ts'];

export const attemptMutations: readonly SuiteMutation[] = [
  ...of('data-plane/forward/forward.ts', asForward, [
    [
      'another node is asked only while nothing was sent',
      "if (result.kind !== 'unreached') return",
      "if (result.kind !== 'unreached' && result.kind !== 'failed') return",
      'a node that answers 500 before',
    ],
    [
      'another node is asked while nothing was sent',
      'unreached = result.failure.reason;\n',
      'unreached = result.failure.reason;\n    break;\n',
      'refuses the connection is passed over',
    ],
    [
      'what no candidate carries is refused by name',
      'if (unreached === undefined && incompatible !== undefined) throw incompatible;',
      '',
      'Errors 2: a field that the dialect cannot carry',
    ],
    [
      'a candidate that carries the request is found',
      'if (body instanceof Refusal) incompatible = body;',
      'if (body instanceof Refusal) throw body;',
      'whose dialect carries the request is found',
    ],
    [
      'a client that left costs no node a request',
      "if (client.isGone) return { kind: 'client-gone' };",
      '',
      'left before anything was sent',
    ],
    [
      'a request in flight ends once',
      'load.end(node, outcome, options.owner);',
      '',
      'a node that answers 500 before',
    ],
    [
      'a broken answer counts against its node',
      'return result.failure.outcome;',
      "return 'neutral';",
      'errors that a node answers do not leave it aside',
    ],
    [
      'an error that a node answers does not',
      'return result.failure.outcome;',
      "return 'broken';",
      'errors that a node answers do not leave it aside',
    ],
    [
      'a suspect answer counts for its tenant',
      'load.end(node, outcome, options.owner);',
      'load.end(node, outcome);',
      'one tenant cannot eject',
    ],
    [
      'an unreached node is left aside',
      "return result.failure.outcome === 'neutral' ? 'neutral' : 'unreached';",
      "return 'neutral';",
      'refuses the connection is passed over',
    ],
    [
      'a client that leaves is not held against the node',
      "case 'client-gone':\n      return 'neutral';",
      "case 'client-gone':\n      return 'broken';",
      'a client that leaves in mid-stream',
    ],
    [
      'a deadline differs from a failure of the node',
      "timedOut ? 'deadline' : 'node'",
      "'node'",
      'falls silent',
    ],
    [
      'too long a request is no failure of the node',
      'contextRefusal(result.failure, route, tier) ??',
      '',
      'a context error of vllm',
    ],
    [
      'what the engine says of the request is no failure of the node',
      'rejectionRefusal(result.failure) ??',
      '',
      'a node that answers 400 has not',
    ],
  ]),
  ...of('data-plane/forward/whole-answer.ts', asForward, [
    [
      'a whole answer is bounded',
      'options.bytesMax',
      'Number.POSITIVE_INFINITY',
      'no end is cut off at the bound',
    ],
    [
      'an answer that is too large is no lack of memory',
      'return this.#bytes.isTooLarge',
      'return this.#bytes === undefined',
      'is read up to its bound',
    ],
  ]),
  ...of('data-plane/forward/attempt.ts', asForward, [
    [
      'a node is not ejected for what one tenant makes it answer: size',
      "too_large: 'suspect'",
      "too_large: 'broken'",
      'one tenant cannot eject',
    ],
    [
      'a node is not ejected for what one tenant makes it answer: the input of a tool',
      "unusable: 'suspect'",
      "unusable: 'broken'",
      'one tenant cannot eject',
    ],
    [
      'a node whose answers no tenant can use is ejected',
      "too_large: 'suspect'",
      "too_large: 'neutral'",
      'one tenant cannot eject',
    ],
    [
      'a status other than 200 is no answer',
      'status === 200 && this.#whole !== undefined',
      'this.#whole !== undefined',
      'looks like an answer',
    ],
    [
      'an answer is of the type that was asked for',
      ' && isJsonType(contentType)',
      '',
      'with a wrong content type',
    ],
    [
      'after the first byte the connection is cut',
      "    if (kind === 'aborted-after-start') this.#client.destroy();\n",
      '',
      'closes the connection',
    ],
    [
      'a client that leaves ends the request at the node',
      '    this.#call.abort();\n',
      '',
      'leaves in mid-stream',
    ],
    ['what is left of an answer is dropped', 'this.#call.drain();', '', 'says nothing more after [DONE]'],
    [
      'only what arrived is completed',
      "arrived ? 'delivered' : 'gone'",
      "'delivered'",
      'never took is not billed',
    ],
    [
      'a client that blocks holds its node back',
      "if (this.#step('blocked') !== 'ignored') this.#call.pause();",
      '',
      'reads slowly holds its node back',
    ],
    [
      'a wait that runs out is a deadline',
      "error.kind === 'timeout'",
      'false',
      'Events: when a node falls silent',
    ],
    [
      'a first event is not waited for without end',
      "this.#call.setDeadline(bounds.firstEventMs, 'a first event');",
      '{}',
      'never answers before the first good event',
    ],
    [
      'a status is not chosen before a good event',
      "    if (state === 'waiting') return;\n",
      '',
      'the status is held back',
    ],
    [
      'a status is not chosen with the head of the answer',
      '      // The deadline for the first event is kept.\n',
      '      this.#client.startStream();\n',
      'the status is held back',
    ],
    [
      'a status is chosen with the first good event',
      "    if (state === 'waiting') return;\n",
      "    if (state !== 'completed') return;\n",
      'the status is held back',
    ],
    [
      'a head is not waited for without end',
      "this.#call.setDeadline(bounds.wholeAnswerMs, 'its answer');",
      '{}',
      'never answers has not',
    ],
    [
      'the whole is not waited for without end',
      'Math.min(bounds.betweenBytesMs, remainingMs)',
      'bounds.betweenBytesMs',
      'sends its body byte by byte has not',
    ],
  ]),
  ...of('data-plane/forward/attempt.ts', asWalk, [
    ['an attempt releases the memory of its answer', '    this.#whole?.release();\n', ''],
    [
      'a stream is ended by the client too',
      '    this.#abandon();\n    this.#resolve(wasSent ?',
      '    this.#resolve(wasSent ?',
    ],
    ['what a client took is released', '      this.#release();\n      this.#resolve', '      this.#resolve'],
    ['a node is resumed when the client reads', '    this.#call.resume();\n', ''],
  ]),
  ...of('data-plane/forward/attempt-states.ts', asWalk, [
    [
      'before the first byte there is a refusal',
      "failure: 'failed',\n    'first-event': 'streaming',",
      "failure: 'aborted-after-start',\n    'first-event': 'streaming',",
    ],
    [
      'a stream that began is never refused',
      "failure: 'aborted-after-start',\n    'first-event': 'ignored',\n    whole: 'delivering',\n    gone: 'client-gone',\n    blocked: 'blocked',\n    drained: 'ignored',",
      "failure: 'failed',\n    'first-event': 'ignored',\n    whole: 'delivering',\n    gone: 'client-gone',\n    blocked: 'blocked',\n    drained: 'ignored',",
    ],
    [
      'what was sent is never sent to another node',
      "'error-head': 'error-body',\n    data: 'ignored',\n    end: 'ignored',\n    failure: 'failed',",
      "'error-head': 'error-body',\n    data: 'ignored',\n    end: 'ignored',\n    failure: 'unreached',",
    ],
    [
      'nothing is read after the end',
      "const over = {\n  sent: 'ignored',\n  'answer-head': 'ignored',\n  'stream-head': 'ignored',\n  'error-head': 'ignored',\n  data: 'ignored',",
      "const over = {\n  sent: 'ignored',\n  'answer-head': 'ignored',\n  'stream-head': 'ignored',\n  'error-head': 'ignored',\n  data: 'streaming',",
    ],
  ]),
  ...of('data-plane/forward/whole-answer.ts', asForward, [
    [
      'the memory of an answer is released',
      '    this.#bytes.release();\n',
      '',
      'a node that cuts its body has not',
    ],
  ]),
];

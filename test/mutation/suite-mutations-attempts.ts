/** Mutations of a request to a node: the choice of a node, one attempt, and its streamed or whole answer. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const asForward = ['data-plane/forward/forward.test.ts'];

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
      'unreached = result.reason;\n',
      'unreached = result.reason;\n    break;\n',
      'refuses the connection is passed over',
    ],
    [
      'what no candidate carries is refused by name',
      'if (unreached === undefined && uncarried !== undefined) throw uncarried;',
      '',
      'Errors 2: a field that the dialect cannot carry',
    ],
    [
      'a candidate that carries the request is found',
      '      uncarried = body;\n      continue;',
      '      throw body;',
      'whose dialect carries the request is found',
    ],
    [
      'a client that left costs no node a request',
      "if (client.gone) return { kind: 'left' };",
      '',
      'left before anything was sent',
    ],
    ['a request in flight ends once', 'load.end(node, verdict);', '', 'a node that answers 500 before'],
    [
      'a broken answer counts against its node',
      "result.failure.breaks ? 'broken' : 'neutral'",
      "'neutral'",
      'errors that a node answers do not leave it aside',
    ],
    [
      'an error that a node answers does not',
      "result.failure.breaks ? 'broken' : 'neutral'",
      "'broken'",
      'errors that a node answers do not leave it aside',
    ],
    [
      'an unreached node is left aside',
      "      return 'unreached';",
      "      return 'neutral';",
      'refuses the connection is passed over',
    ],
    [
      'a client that leaves is not held against the node',
      "case 'left':\n      return 'neutral';",
      "case 'left':\n      return 'broken';",
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
  ...of('data-plane/forward/attempt.ts', asForward, [
    [
      'an attempt gives back the memory of its answer',
      '    this.#body?.release();\n',
      '',
      'a node that cuts its body has not',
    ],
    [
      'a status other than 200 is no answer',
      'status === 200 && this.#body?.accepts(contentType)',
      'this.#body?.accepts(contentType)',
      'looks like an answer',
    ],
    [
      'an answer is of the type that was asked for',
      'status === 200 && this.#body?.accepts(contentType)',
      'status === 200 && this.#body',
      'with a wrong content type',
    ],
    [
      'after the first byte the connection is cut',
      '    this.client.destroy();\n',
      '',
      'closes the connection',
    ],
    [
      'before the first byte there is a refusal',
      'if (!this.client.started) {',
      'if (this.#settled) {',
      'a node that answers 500 has not',
    ],
    [
      'a client that leaves ends the request at the node',
      '    this.call.abort();\n',
      '',
      'leaves in mid-stream',
    ],
    ['what is left of an answer is dropped', 'this.call.dropRest();', '', 'says nothing more after [DONE]'],
    [
      'only what arrived is completed',
      "arrived ? { kind: 'completed', usage } : { kind: 'left' }",
      "{ kind: 'completed', usage }",
      'never took is not billed',
    ],
    [
      'a client that blocks holds its node back',
      '    this.call.pause();\n',
      '',
      'reads slowly holds its node back',
    ],
    [
      'a wait that runs out is a deadline',
      "error.kind === 'timeout'",
      'false',
      'Events: when a node falls silent',
    ],
  ]),
  ...of('data-plane/forward/streamed-body.ts', asForward, [
    [
      'a first event is not waited for without end',
      "attempt.call.waitAtMost(attempt.bounds.firstEventMs, 'a first event');",
      '',
      'never answers before the first good event',
    ],
    [
      'nothing is read after the end',
      'if (this.#over) return;\n    const frames',
      'const frames',
      'sends more after [DONE]',
    ],
  ]),
  ...of('data-plane/forward/whole-body.ts', asForward, [
    [
      'the memory of an answer is given back',
      '    this.#bytes.release();\n',
      '',
      'a node that cuts its body has not',
    ],
    [
      'a head is not waited for without end',
      "attempt.call.waitAtMost(attempt.bounds.wholeAnswerMs, 'its answer');",
      '',
      'never answers has not',
    ],
    [
      'the whole is not waited for without end',
      'Math.min(this.#attempt.bounds.betweenBytesMs, leftMs)',
      'this.#attempt.bounds.betweenBytesMs',
      'sends its body byte by byte has not',
    ],
  ]),
];

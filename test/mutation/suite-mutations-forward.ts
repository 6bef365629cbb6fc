/** Mutations of the way to a node and back: attempts, streams, whole answers, and the client's side. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const forwardMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/http/node-exchange.ts',
    ['data-plane/http/node-exchange.test.ts'],
    [
      [
        'a complete answer says its length',
        "if (body !== undefined) head.push('content-length', String(Buffer.byteLength(body)));",
        '',
        'a complete answer goes out',
      ],
      [
        'what is given in one turn goes out in one write',
        '    queueMicrotask(this.#flush);',
        '    this.#flush();',
        'what a stream is given',
      ],
      [
        'an early end sends what was delivered',
        '    this.#write();\n    this.#ended = true;',
        '    this.#ended = true;',
        'an early end delivers',
      ],
      [
        'an early end is no clean one',
        'this.#socket.destroySoon();',
        'this.response.end();',
        'an early end delivers',
      ],
      [
        'an early end waits only so long',
        '    this.#stallAfter(this.#waits.lastBytesMs);\n',
        '',
        'an early end waits',
      ],
      ['a client that leaves is noticed', '    listener?.onGone();\n', '', 'leaves is noticed at once'],
      ['a slow reader is noticed', '    this.#listener?.onBlocked();\n', '', 'a slow reader blocks'],
      [
        'a slow reader that reads on is noticed',
        '    this.#listener?.onDrained();\n',
        '',
        'a slow reader blocks',
      ],
      [
        'a client that takes nothing is cut off',
        '    this.#stallAfter(this.#waits.stallMs);\n    this.#listener',
        '    this.#listener',
        'takes no byte for the whole stall time',
      ],
      [
        'an answer leaves no listener behind',
        'if (known !== undefined) {',
        'if (known === null) {',
        'keeps no listener',
      ],
    ],
  ),
  ...of(
    'data-plane/forward/attempt.ts',
    ['data-plane/forward/forward.test.ts'],
    [['a stream is not buffered on its way', ", 'x-accel-buffering', 'no'", '']],
  ),
];

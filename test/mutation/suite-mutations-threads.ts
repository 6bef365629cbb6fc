/** Mutations of what waits: usage on its way to the log, and bodies on their way to and from the thread of shaping. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const threadsMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/usage/outbox.ts',
    ['data-plane/usage/outbox.test.ts'],
    [
      [
        'a full outbox says so',
        'this.unshipped >= (this.#options.rowsMax ?? rowsMaxDefault)',
        'this.unshipped < 0',
        'the outbox is full',
      ],
      [
        'a disk that cannot be written makes it full',
        'this.#retryMs > 0 || ',
        '',
        'cannot be written fails no request',
      ],
      [
        'rows that wait are bounded',
        ' || this.#queue.length >= queueRowsMax',
        '',
        'cannot be written fails no request',
      ],
      [
        'a closed outbox takes no rows',
        'if (this.#closed || this.#queue',
        'if (this.#queue',
        'a closed outbox',
      ],
      [
        'a row that is not valid takes no number',
        'const n = this.#nextN;',
        'const n = this.#nextN++;',
        'a row that is not valid',
      ],
      [
        'a row that is not valid is refused',
        'if (!row.success)',
        'if (row === undefined)',
        'a row that is not valid',
      ],
      [
        'an acknowledgement of other rows changes nothing',
        'if (this.#closed || incarnation.shippedN !== firstN - 1) return;',
        '',
        'an acknowledgement of another part',
      ],
      [
        'what was shipped is remembered',
        'this.#shipped.push({',
        '[].concat({',
        'what was shipped stays shipped',
      ],
      [
        'a failed write is tried again',
        '    this.#schedule(this.#retryMs);\n',
        '',
        'tried again without a further row',
      ],
      ['rows are kept for a day', 'this.#now() - keptMs', 'this.#now()', 'rows are kept a day'],
    ],
  ),
  ...of(
    'data-plane/usage/publisher.ts',
    ['data-plane/usage/publisher.test.ts'],
    [
      [
        'an incarnation has one partition',
        'usagePartitionOf(shipment.incarnation.id, partitions)',
        '0 * partitions',
        'rows go out in order',
      ],
      [
        'a log that answers again is reported',
        '          this.#reach(true);\n',
        '',
        'a log that cannot be opened',
      ],
      [
        'stopping ships what is left',
        'outbox.unshipped > 0 && performance',
        'false && performance',
        'stopping ships what is left',
      ],
    ],
  ),
  ...of(
    'data-plane/shaping/fair-queue.ts',
    ['data-plane/shaping/shaping.test.ts'],
    [
      [
        'owners take turns',
        'if (turn[0] !== this.#last) return turn;',
        'return turn;',
        'one owner’s many jobs',
      ],
      [
        'what ends a request comes before what begins one',
        'else if (first) entries.unshift(entry);',
        'else if (first) entries.push(entry);',
        'what ends a request',
      ],
    ],
  ),
  ...of(
    'data-plane/shaping/shaping.ts',
    ['data-plane/shaping/shaping.test.ts'],
    [
      ['one job at a time', 'if (this.#running !== undefined) return;', '', 'one owner’s many jobs'],
      [
        'a lost thread refuses the job under way',
        'if (entry !== undefined) this.#settle(entry, () => entry.reject(lost(reason)));',
        '',
        'a thread that ends refuses',
      ],
      [
        'after a lost thread the next job starts another',
        '    this.#thread = undefined;\n    this.#held = 0;',
        '    this.#held = 0;',
        'a thread that ends refuses',
      ],
      [
        'a drop after its thread was lost means nothing',
        'if (thread !== this.#thread) return;\n    this.#held',
        'this.#held',
        'a thread that ends refuses',
      ],
      [
        'a text whose client left is dropped',
        "if (result.kind === 'shaped' && entry.gone.aborted) this.drop(id, thread);",
        '',
        'leaves nothing held',
      ],
      [
        'a refusal keeps its kind',
        'throw new Refusal(result.type, result.message, { reason: result.reason });',
        "throw new Error('refused');",
        'what a body is refused for',
      ],
    ],
  ),
  ...of(
    'data-plane/shaping/shape-body.ts',
    ['data-plane/request/body.test.ts'],
    [
      [
        'a large body is shaped elsewhere',
        'if (body.bytes.length > hereBytesMax) return undefined;',
        '',
        'the bytes of a large body',
      ],
    ],
  ),
];

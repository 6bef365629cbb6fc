/** Mutations of what waits: usage on its way to the log, and bodies on their way to and from the thread of bodyWorker. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

/** Of the counters that gateways exchange; the simulation and the tests of meter and outbox find them. */
const countersMutations: readonly SuiteMutation[] = [
  ...of(
    'shared/limits/counters.ts',
    ['test/limits/counters.simulation.test.ts'],
    [
      [
        'another process under its replica is a conflict',
        "if (!own.isOwnProcess(record.process)) return 'another process';",
        '',
      ],
      [
        'larger values under its replica are a conflict',
        "return isMore ? 'larger values' : undefined;",
        'return undefined;',
      ],
      ['the larger value counts', 'value.tokens += moreTokens;', 'value.tokens = tokens;'],
    ],
  ),
  ...of(
    'shared/limits/gateway-counters.ts',
    ['test/limits/counters.simulation.test.ts'],
    [
      [
        'own counts come from the folder alone',
        'if (record.replica !== ledger.replica) return state.apply(record, nowMs);',
        'state.apply(record, nowMs);',
      ],
    ],
  ),
  ...of(
    'shared/limits/gateway-counters.ts',
    ['shared/limits/gateway-counters.test.ts'],
    [
      [
        'what was counted before a conflict still counts',
        '    this.#plan.takeAll();\n    this.#adoptFormer(nowMs);',
        '    this.#plan.takeAll();',
      ],
    ],
  ),
  ...of(
    'data-plane/usage/outbox-file.ts',
    ['data-plane/usage/outbox.test.ts'],
    [['counters change with their rows', '          this.ledger.write(entries, nowMs);\n', '']],
  ),
  ...of(
    'data-plane/usage/outbox-file.ts',
    ['data-plane/usage/outbox-spool.test.ts'],
    [
      [
        'a group is taken with its rows',
        '          this.#take.run(groupsTaken, numbering.id, numbering.nextN);\n',
        '',
        'nothing counts twice',
      ],
    ],
  ),
  ...of(
    'data-plane/usage/outbox-spool.ts',
    ['data-plane/usage/outbox-spool.test.ts'],
    [
      ['the spool of another database is not billed', 'id !== databaseId || ', '', 'a deleted database'],
      ['a damaged group is not billed', ' !== Number(checksum)', ' === -1', 'other tokens'],
    ],
  ),
  ...of(
    'data-plane/usage/spool-writer.ts',
    ['data-plane/usage/outbox-spool.test.ts'],
    [
      [
        'a removed spool is made again',
        '!(await isAt(file.path, file.handle))',
        'false',
        'removed while it is used',
      ],
      [
        'a file is emptied only once the database has its groups',
        ' || other.last > this.#taken',
        '',
        'has not taken is not emptied',
      ],
      [
        'a write that hangs counts as failing',
        'performance.now() - this.#writingSinceMs > lateMs',
        'false',
        'a write that hangs',
      ],
      [
        'what the database took does not gather',
        'this.#waiting = this.#waiting.filter((group) => group.number > this.#taken);',
        '',
        'a write that hangs',
      ],
      ['the files take turns', 'file.bytes < turnBytes || ', 'file.bytes > 0 || ', 'two files take turns'],
      [
        'a group that could not be written is not kept',
        'this.#failed.length === 0 && last',
        'last',
        'after a failed write no row',
      ],
      [
        'an end empties what is taken',
        'if (file.last <= this.#taken) await',
        'if (file.last < 0) await',
        'empty spool',
      ],
    ],
  ),
  ...of(
    'data-plane/usage/outbox.ts',
    ['data-plane/usage/outbox-spool.test.ts'],
    [
      [
        'an older database takes no later groups',
        'if (group.number > this.#group + 1 && !isDamaged) return false;',
        '',
        'in an older state',
      ],
      [
        'a spool that was away gets other numbers',
        'const isBehind = !isLast && ',
        'const isBehind = isLast && ',
        'that was away',
      ],
      [
        'a damaged spool stays until its groups are written',
        '(isWritten ? emptySpool',
        '(kept ? emptySpool',
        'stays where it is',
      ],
      ['a group is taken once', 'if (group.number <= this.#group) continue;', '', 'nothing counts twice'],
      ['a copy gives the same numbers', 'isLast ? numbering.nextN : 1', '1', 'two copies of a folder'],
    ],
  ),
  ...of(
    'data-plane/usage/usage-sender.ts',
    ['data-plane/usage/meter.test.ts'],
    [
      [
        'near the end rows do not wait',
        'isUrgent || this.#unsentCount',
        'this.#unsentCount',
        'near the end, and for',
      ],
      [
        'other rows wait for each other',
        'isUrgent || this.#unsentCount >= gatherRowsMax',
        'this.#unsentCount > 0',
        'near the end, and for',
      ],
      ['what is not in the spool does not wait', ' || this.#spool.isFailing', '', 'cannot be written'],
      [
        'a spool that fails later sends what it had',
        'if (this.#spool.isFailing) this.keep();',
        '',
        'cannot be written',
      ],
      ['rows of a full record do not wait', 'this.#unsentCount >= gatherRowsMax', 'false', 'fill a record'],
    ],
  ),
];

export const threadsMutations: readonly SuiteMutation[] = [
  ...countersMutations,
  ...of(
    'data-plane/usage/outbox.ts',
    ['data-plane/usage/outbox.test.ts'],
    [
      [
        'a full outbox is reported',
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
        ' || this.unwritten >= queueRowsMax',
        '',
        'cannot be written fails no request',
      ],
      [
        'a closed outbox drops rows',
        'if (this.#closed || this.unwritten',
        'if (this.unwritten',
        'a closed outbox',
      ],
      [
        'an invalid row uses no number',
        'const { incarnation, nextN: n } = numberer;',
        'const { incarnation } = numberer;\n    const n = numberer.nextN++;',
        'an invalid row',
      ],
      [
        'an invalid row is refused',
        'if (!row.success) this.#drop',
        'if (row === undefined) this.#drop',
        'an invalid row',
      ],
      [
        'an acknowledgement of other rows changes nothing',
        'if (this.#closed || incarnation.shippedN !== firstN - 1) return;',
        '',
        'an acknowledgement of another part',
      ],
      ['shipped rows are remembered', 'this.#shipped.push({', '[].concat({', 'shipped rows stay shipped'],
      [
        'a failed write is retried',
        '    this.#schedule(this.#retryMs);\n',
        '',
        'retried without a further row',
      ],
      ['rows are kept for a day', 'this.#now() - retentionMs', 'this.#now()', 'rows are kept for a day'],
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
        '          this.#setReachable(true);\n',
        '',
        'a log that cannot be opened',
      ],
      [
        'stopping ships the remaining rows',
        'outbox.unshipped > 0 && performance',
        'false && performance',
        'stopping ships the remaining rows',
      ],
    ],
  ),
  ...of(
    'data-plane/body-worker/fair-queue.ts',
    ['data-plane/body-worker/body-worker.test.ts'],
    [
      [
        'owners take turns',
        'if (next[0] !== this.#lastOwner) return next;',
        'return next;',
        'the queue is fair',
      ],
      [
        'what ends a request comes before what begins one',
        'else if (first) entries.unshift(entry);',
        'else if (first) entries.push(entry);',
        'precedes the queued bodies',
      ],
    ],
  ),
  ...of(
    'data-plane/body-worker/body-worker.ts',
    ['data-plane/body-worker/body-worker.test.ts'],
    [
      [
        'one job at a time',
        'if (this.#running !== undefined) return;\n    const entry',
        'const entry',
        'the queue is fair',
      ],
      [
        'a lost worker refuses the job under way',
        'if (entry !== undefined) this.#settle(entry, () => entry.reject(unavailable(entry, reason)));',
        '',
        'a worker that crashes refuses',
      ],
      [
        'after a lost worker the next job starts another',
        '    this.#worker = undefined;\n    this.#retainedTexts = 0;',
        '    this.#retainedTexts = 0;',
        'a worker that crashes refuses',
      ],
      [
        'to discard a text after its worker was lost does nothing',
        'if (worker !== this.#worker) return;\n    this.#retainedTexts -= 1;',
        'this.#retainedTexts -= 1;',
        'a worker that crashes refuses',
      ],
      [
        'the text of a job that was cancelled while it ran is discarded',
        "if (result.kind === 'shaped' && entry.signal.aborted) this.discard(id, worker);",
        '',
        'one that runs retains no text',
      ],
      [
        'a worker that retains a text does not end when idle',
        ' || this.#retainedTexts > 0) return;',
        ') return;',
        'an idle worker ends',
      ],
      [
        'a refusal keeps its kind',
        'throw new Refusal(result.cause, result.message);',
        "throw new Error('refused');",
        'with the same error as inline',
      ],
    ],
  ),
  ...of(
    'data-plane/request/shape-body.ts',
    ['data-plane/http/body.test.ts'],
    [
      [
        'a large body is shaped on the worker',
        'if (body.bytes.length > inlineBytesMax) return undefined;',
        '',
        'the bytes of a large body',
      ],
    ],
  ),
];

/** Mutations of the calls to nodes, their connections, their load and their counts of tokens. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const upstreamMutations: readonly SuiteMutation[] = [
  ...of(
    'shared/runtime/ticker.ts',
    ['data-plane/upstream/node-pools.test.ts'],
    [
      [
        'a stall of this process is no wait on others',
        'this.#tickMs + lateMsMax);',
        'Number.POSITIVE_INFINITY);',
        'counts little of a stall',
      ],
      [
        'sockets are read before a wait ends',
        'setImmediate(() => this.#askAll(nowMs));',
        'this.#askAll(nowMs);',
        'arrives while this gateway stalls',
      ],
    ],
  ),
  ...of(
    'data-plane/upstream/affinity.ts',
    ['data-plane/upstream/affinity.test.ts'],
    [
      [
        'tenants have homes of their own',
        'hashOf(hashOf(this.#secret, request.group), tenant)',
        'hashOf(this.#secret, request.group)',
        'tenants have different homes',
      ],
      [
        'an ejected node is left out',
        'const open = this.#load.open(candidates);',
        'const open = candidates;',
        'not ejected',
      ],
      ['a loaded node takes no more', '(inFlight[index] ?? 0) < most', 'most > 0', 'at one moment'],
      ['a burst spreads', 'const isBurst = mean', 'const isBurst = -mean', 'a cold burst'],
      [
        'a prefix with much load has several homes',
        'return parts <= 1 ? 1 :',
        'return parts <= 1e9 ? 1 :',
        'as many nodes as their load needs',
      ],
      [
        'a conversation stays where it was sent',
        'const chosen = seen ?? homeAt',
        'const chosen = homeAt',
        'a conversation stays',
      ],
      [
        'what was sent long ago is forgotten',
        'entry.placedMs < sinceMs',
        'entry.placedMs < 0',
        'a conversation stays',
      ],
    ],
  ),
  ...of(
    'data-plane/upstream/prefix-table.ts',
    ['data-plane/upstream/affinity.test.ts'],
    [
      [
        'the table is bounded',
        'if (this.#size > this.#entriesMax)',
        'if (this.#size > 2 * this.#entriesMax)',
        'the table is bounded',
      ],
    ],
  ),
  ...of(
    'data-plane/upstream/prefix-table.ts',
    ['data-plane/upstream/prefix-table.test.ts'],
    [['a tenant gives up its own entries first', 'if (entries.size <= share) {', 'if (entries.size > 0) {']],
  ),
  ...of(
    'data-plane/upstream/node-call.ts',
    ['data-plane/forward/forward-no-http.test.ts'],
    [
      [
        'an answer that is no HTTP is a failure of the node',
        'if (error instanceof errors.HTTPParserError)',
        'if (error === null)',
      ],
    ],
  ),
  ...of(
    'data-plane/upstream/node-pools.ts',
    ['data-plane/upstream/node-pools.test.ts'],
    [
      [
        'an unused pool is closed',
        'if (usedMs > unusedSinceMs || pool.stats.size > 0) continue;',
        'if (usedMs > 0) continue;',
        'nobody uses any more',
      ],
      ['a pool in use is not closed', ' || pool.stats.size > 0', '', 'nobody uses any more'],
      [
        'the head of an answer is bounded',
        'maxHeaderSize: headBytesMax',
        'maxHeaderSize: 2 ** 20',
        'a head larger than',
      ],
      [
        'a credential is not read with every request',
        'if (known !== undefined && nowMs - known.readMs < credentialMs) return known.value;',
        '',
        'a credential is sent',
      ],
      ['closing is bounded', ', graceOver]);', ']);', 'closing lets requests end'],
    ],
  ),
  ...of(
    'data-plane/upstream/load.ts',
    ['data-plane/upstream/load.test.ts'],
    [
      ['the less loaded of two', 'this.inFlight(other.node) < this.inFlight(one.node) ? other : one', 'one'],
      ['two choices are two nodes', 'const step = 1 + Math', 'const step = Math'],
      ['ejected nodes are passed over', 'open.length > 0 ? open : candidates', 'candidates'],
      ['the last candidates are not passed over', 'open.length > 0 ? open : candidates', 'open'],
      [
        'a node without a connection is ejected',
        "} else if (outcome === 'unreached') {\n      this.#eject(state);",
        "} else if (outcome === 'unreached') {",
      ],
      ['ejection needs several in a row', 'state.broken >= brokenInARowMax', 'state.broken >= 1'],
      ['several in a row eject', 'state.broken >= brokenInARowMax', 'state.broken > brokenInARowMax'],
      [
        'an answer ends the row',
        '      state.broken = 0;\n      state.ejections = 0;',
        '      state.ejections = 0;',
      ],
      [
        'a suspect answer counts once for its tenant',
        'suspectOwners.length >= brokenInARowMax || suspectOwners.includes(owner)',
        'suspectOwners.length >= brokenInARowMax',
      ],
      [
        'suspect answers of several tenants eject',
        "outcome === 'broken' || (outcome === 'suspect' && isNewSuspect(state, owner))",
        "outcome === 'broken'",
      ],
      ['an answer ends the row of suspects', '      if (state.broken > 0) state.suspectOwners = [];\n', ''],
      [
        'an ejection ends the row of suspects',
        '    state.broken = 0;\n    state.suspectOwners = [];\n  }',
        '    state.broken = 0;\n  }',
      ],
      ['ejection doubles', '2 ** state.ejections', '1'],
      [
        'ejection is bounded',
        'Math.min(ejectionFirstMs * 2 ** state.ejections, ejectionMaxMs)',
        'ejectionFirstMs * 2 ** state.ejections',
      ],
      ['many that end together eject once', 'if (state.ejectedUntilMs > this.#now()) return;', ''],
      ['what is over is not in flight', 'state.inFlight -= 1;', ''],
    ],
  ),
  ...of(
    'data-plane/upstream/count-tokens.ts',
    ['data-plane/upstream/count-tokens.test.ts'],
    [
      ['a count is JSON', ' || !isJsonType(contentType)', ''],
      ['a count is not waited for without end', "call.setDeadline(ms, 'its count');", ''],
      [
        'a count is bounded',
        'new ByteCollector(pools.answerBytes, countBytesMax)',
        'new ByteCollector(pools.answerBytes, Number.POSITIVE_INFINITY)',
        'read no further than its bound',
      ],
      ['the memory of a count is given back', '      answer?.release();\n', ''],
      [
        'embeddings are not counted',
        "if (asked.kind !== 'chat') return undefined;",
        "if (asked.kind !== 'chat') throw new Error();",
      ],
      [
        'an engine without a counter is not asked',
        'if (rendered === undefined) return undefined;',
        'if (rendered === undefined) throw new Error();',
      ],
      ['an unreached node is reported', 'watch.onUnreached?.();', ''],
    ],
  ),
  ...of(
    'data-plane/upstream/byte-collector.ts',
    ['data-plane/upstream/byte-collector.test.ts'],
    [
      [
        'memory is charged',
        'if (!this.#memory.reserve(bytes)) return false;',
        'if (bytes < 0) return false;',
      ],
      [
        'a body that is too large is known as such',
        'this.#isTooLarge = this.#bytes.length + piece.length > this.#bytesMax;',
        'this.#isTooLarge = false;',
      ],
      [
        'a body may be as large as its bound',
        'this.#bytes.length + piece.length > this.#bytesMax',
        'this.#bytes.length + piece.length >= this.#bytesMax',
      ],
      [
        'the whole body is bounded, not its last piece',
        'this.#bytes.length + piece.length > this.#bytesMax',
        'piece.length > this.#bytesMax',
      ],
      ['no more memory is taken than a body may need', 'new ChunkBuffer({ bytesMax, ', 'new ChunkBuffer({ '],
      ['memory is given back', 'this.#memory.release(this.#charged);', ''],
      ['memory is given back once', '    this.#charged = 0;\n', ''],
      [
        'what was handed over stays charged',
        'return this.#bytes.detach();',
        'this.release();\n    return this.#bytes.detach();',
      ],
      ['a type may have parameters', 'json\\s*(;|$)/i', 'json$/i'],
      ['a longer type is another', 'json\\s*(;|$)/i', 'json/i'],
    ],
  ),
];

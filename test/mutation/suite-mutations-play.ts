/** Mutations of the rules of visitors: who one is, who may begin, and what all of them together may use. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

export const playMutations: readonly SuiteMutation[] = [
  ...of(
    'data-plane/play/visitors.ts',
    ['data-plane/play/play.test.ts'],
    [
      ['a cookie ends', 'ageMs < cookieDays * dayMs && ', ''],
      [
        'a visitor is another subject in each month',
        'toISOString().slice(0, 7)',
        'toISOString().slice(0, 4)',
      ],
      ['a network is another subject on each day', 'toISOString().slice(0, 10)', 'toISOString().slice(0, 7)'],
      [
        'cookies are of one token',
        "new Sealer(gatewayToken, 'visitor cookie')",
        "new Sealer('', 'visitor cookie')",
      ],
    ],
  ),
  ...of(
    'data-plane/play/new-visitors.ts',
    ['data-plane/play/new-visitors.test.ts'],
    [
      ['three cost nothing', 'counts.made >= freePerHour', 'counts.made > freePerHour'],
      ['a solution counts once', 'this.#answered.set(nonce, nowMs + challengeSeconds * 1000);', ''],
      [
        'further networks work',
        'counts === undefined || counts.made >=',
        'counts !== undefined && counts.made >=',
      ],
      [
        'the checks of a second end',
        "if (!budget.tryAcquire(address, this.#monotonicMs())) return 'busy';",
        'budget.tryAcquire(address, this.#monotonicMs());',
      ],
      [
        'further networks have few checks',
        'counts === undefined ? this.#othersChecks : this.#checks',
        'this.#checks',
      ],
      [
        'networks leave checks for others',
        'tryAcquire(address, this.#monotonicMs())',
        "tryAcquire('10.0.0.' + (this.#answered.size % 200), this.#monotonicMs())",
      ],
      ['wrong solutions are few', ' || counts.checked >= checkedPerHourMax', ''],
      ['each hour begins at nothing', '      this.#networks.clear();\n', ''],
    ],
  ),
  ...of(
    'data-plane/play/call-budget.ts',
    ['data-plane/play/call-budget.test.ts'],
    [
      [
        'the calls of a second end',
        'if (ofNetwork >= (this.#perSecond - this.#calls) * shareOfRoom) return false;',
        '',
      ],
      ['networks leave calls for others', ' * shareOfRoom) return', ') return'],
      ['what is left is shared, not all', '(this.#perSecond - this.#calls)', 'this.#perSecond'],
      ['IPv6 networks have 48 bits', ".split(':', 3).join(':')", ''],
      ['each second of calls begins at nothing', '      this.#networks.clear();\n', ''],
    ],
  ),
  ...of(
    'shared/runtime/paced-connections.ts',
    ['shared/runtime/paced-connections.test.ts'],
    [
      ['connections have a pace', '!socket.destroyed && !limit.tryAcquire(monotonicMs())', 'false'],
      ['an address leaves room for others', ' * shareOfRoom', ''],
      ['in a full room an address has one', 'count === 0 ? waiting.popOfMost() : undefined', 'undefined'],
      ['what waits is not read', '  Object.assign(server, { pauseOnConnect: true });\n', ''],
      ['a proxy is not paced', 'if (paced.isExempt(socket.remoteAddress)) return start(socket);', ''],
    ],
  ),
  ...of(
    'data-plane/play/start-play.ts',
    ['test/play/flood.test.ts'],
    [
      ['calls are bounded', '!hasRoom(exchange, path)', 'false'],
      [
        'files are bounded',
        '!hasRoom(exchange, path)',
        "path.startsWith('/api/') && !hasRoom(exchange, path)",
      ],
      ['a new visitor has no key', "path === '/api/visitor' || ", ''],
      ['only a good key counts as one', 'carriesKey(gateway.lookup, authorization, gateway.now())', 'true'],
      ['what was sent ahead of a refusal is not read', 'if (exchange.isLast) return false;', ''],
    ],
  ),
  ...of(
    'data-plane/play/challenges.ts',
    ['data-plane/play/new-visitors.test.ts'],
    [
      ['a solution is of its network', 'parameters.data.network !== network || ', ''],
      ['a challenge ends', 'parameters.expiresAt * 1000 < nowMs', 'false'],
      [
        'challenges are of one token',
        "return timingSafeEqual(this.#sign(parameters), Buffer.from(signature, 'hex'));",
        'return signature.length > 0;',
      ],
      [
        'a solution is the derived key',
        " && timingSafeEqual(key, Buffer.from(solution.derivedKey, 'hex'))",
        '',
      ],
    ],
  ),
  ...of(
    'data-plane/usage/worker-messages.ts',
    ['data-plane/usage/outbox.test.ts'],
    [
      [
        'a turn counts in the periods of its admission',
        'admittedMs ?? Date.parse(row.at)',
        'Date.parse(row.at)',
      ],
      ['a stopped answer is no turn', 'unfinished ? 0 : 1', '1'],
      ['a stopped answer is no entry of its visitor', 'unfinished ? [] : ', ''],
    ],
  ),
  ...of(
    'data-plane/usage/outbox-ledger.ts',
    ['data-plane/usage/outbox.test.ts'],
    [
      [
        'networks do not push out visitors',
        "return key.startsWith(networkPrefix) ? 'network' : 'visitor';",
        "return 'visitor';",
      ],
      ['each day what ended is removed', '    if (dayOf(nowMs) > this.#day) this.#removeEnded(nowMs);\n', ''],
    ],
  ),
  ...of(
    'data-plane/request/handle.ts',
    ['test/play/period.test.ts'],
    [
      ['a visitor is of the moment when the body is there', ' || entry?.visitorAt !== undefined', ''],
      [
        'a visitor is of the moment of its admission',
        'visitorAt(entry, nowMs)',
        'visitorAt(entry, acceptedMs)',
      ],
      ['what a visitor stops counts', 'isVisitor ? outcome.spent : undefined', 'undefined'],
    ],
  ),
  ...of(
    'data-plane/request/handle.ts',
    ['data-plane/play/play-api.test.ts', 'test/play/shares.test.ts'],
    [
      [
        'visitors have the memory of one organisation',
        'sharerOf(subjectOf(admitted.caller))',
        'subjectOf(admitted.caller)',
      ],
      ['visitors are one in the evidence', 'owner: sharerOf(decision.subject)', 'owner: decision.subject'],
    ],
  ),
  ...of(
    'shared/decision/limits.ts',
    ['shared/decision/visitor-limits.test.ts'],
    [
      ['a network has several times the turns of a visitor', 'freeTurns * total.networkFactor', 'freeTurns'],
      ['a network ends at its turns', 'networkTurns < networkTurnsMax', 'networkTurns <= networkTurnsMax'],
      ['the tokens of a day end', 'tokens < tokensPerDay', 'tokens <= tokensPerDay'],
      ['the requests of a minute end', 'window.used < limit', 'window.used <= limit'],
      ['a further request counts', 'limit, weight) + weight <= limit', 'limit, weight) <= limit'],
    ],
  ),
];

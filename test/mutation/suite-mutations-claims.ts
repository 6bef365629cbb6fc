/** Mutations of the rules of claims: the tests of each rule, or the simulation of gateways, must notice the loss of each. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const fold = ['shared/limits/claims-fold.test.ts'];
const rules = ['shared/limits/claimant.test.ts'];
const shares = ['shared/limits/standing-share.test.ts'];
const clocks = ['shared/limits/log-clock.test.ts'];
const logTime = ['shared/log/embedded/log-time.test.ts'];
const waits = ['shared/limits/waits.test.ts'];
const simulation = ['test/limits/claims.test.ts'];

export const claimsMutations: readonly SuiteMutation[] = [
  ...of(
    'schemas/gauges.ts',
    ['schemas/gauges.test.ts'],
    [
      [
        'a remembered subject has the same bytes',
        'known !== undefined && isSame(known, bytes, from, to)',
        'known?.length === to - from',
      ],
      ['a subject is printable', 'byte <= 0x20 || byte >= 0x7f', 'byte <= 0x20 || byte >= 0xff'],
    ],
  ),
  ...of('shared/limits/claims-fold.ts', simulation, [
    ['a record that is doubled or late is skipped', '(known.ended || n <= known.n)', '(known.ended)'],
  ]),
  ...of('shared/limits/claims-fold.ts', fold, [
    ['a process that has ended does not return', '(known.ended || n <= known.n)', '(n <= known.n)'],
    ['nothing came between who takes all room', 'lastOfOthers <= alone && ', ''],
    ['no process that has ended takes all room', ' && !this.hasEnded(process)', ''],
    ['a later record is no silence', 'known.ended || known.offset > seen', 'known.ended'],
    ['a later record keeps all room', ' && (this.#processes.get(id)?.offset ?? 0) <= seen', ''],
    [
      'a record without it gives all room up',
      'if (alone === undefined && this.#alone === process) this.#alone = undefined;',
      '',
    ],
    [
      'all room ends with its process',
      'if (this.#alone === process) this.#alone = undefined;\n    this.#rows',
      'this.#rows',
    ],
    ['all room blocks the others', 'this.#alone !== undefined && this.#alone !== process', 'false'],
    [
      'who joins takes nothing of the shares of those that may not know it',
      'return this.#live - this.#joining.size;',
      'return this.#live;',
    ],
    [
      'what was left for it is not left without end',
      'this.#joining.delete(process);\n      this.#epoch++;',
      '',
    ],
  ]),
  ...of('shared/limits/claims-rows.ts', fold, [
    [
      'the claims of a minute outlive their process',
      'if (row.window !== inFlightWindow) {',
      'if (row.window < inFlightWindow) {',
    ],
    [
      'weight in flight ends with it',
      'if (row.window !== inFlightWindow) {',
      'if (row.window >= inFlightWindow) {',
    ],
    ['a process keeps what it holds', 'Math.max(cell.claim, room)', 'room'],
    ['no more is granted than is left', 'Math.min(asked, Math.max(cell.claim, room))', 'asked'],
    ['what was used counts', 'Math.max(used, Math.min', 'Math.max(0, Math.min'],
    ['who ended lacks nothing', 'cell.asked = cell.claim;', ''],
    ['while one holds all room no other is granted any', 'isBlocked ? 0 : this', 'this'],
  ]),
  ...of('shared/limits/own-limit.ts', rules, [
    ['above the limit a claim is cut', 'if (excess > 0 && !isAlone)', 'if (excess > 1e9 && !isAlone)'],
    ['who got less asks again', '(!isUnread && canGrow(row, own, this.limit))', 'false'],
    ['a quarter of the rest is claimed beyond what is used', 'Math.floor(rest / 4)', 'rest'],
    [
      'what was admitted lately is claimed ahead',
      'Math.min(this.#recent.weight + this.#recent.before, Math.floor(rest / 4))',
      '0',
    ],
    ['who is alone publishes at each tick', 'return state.isAlone || this', 'return this'],
    [
      'what is new goes with the next record',
      "this.#isRunningOut() ? 'at the tick' : 'with the next'",
      "this.#isRunningOut() ? 'at the tick' : 'at the tick'",
    ],
    [
      'who runs out of what it claimed ahead says so at the tick',
      'return grown > 1 && 2',
      'return grown > 1e9 && 2',
    ],
    ['what is no longer wanted is given up', 'wanted < claim && ageMs', 'wanted < -1 && ageMs'],
    [
      'what was not read back is published again',
      "return ageMs >= repeatMs ? 'at the tick' : 'no';",
      "return 'no';",
    ],
    [
      'where another lacks room nothing is claimed ahead',
      'if (isAlone || isContended) return needed;',
      'if (isAlone) return needed;',
    ],
    [
      'where another lacks room, what is free is given up at once',
      'return isContended && (wanted',
      'return row === undefined && (wanted',
    ],
    [
      'what waits is asked for at once',
      'if (this.waiting > 0 && (wanted > claim',
      'if (this.waiting > 1e9 && (wanted > claim',
    ],
    ['what is held is repeated', "ageMs >= heldMs ? 'with the next' : 'no'", "ageMs >= heldMs ? 'no' : 'no'"],
    [
      'of many outstanding claims the smallest is kept',
      'claim: Math.min(...claims)',
      'claim: Math.max(...claims)',
    ],
  ]),
  ...of('shared/limits/standing-share.ts', simulation, [
    ['a share of a minute is used once others know of it', 'this.#isKnown && this.#from <= window', 'true'],
    ['shares that do not fit do not grow', 'Math.min(own?.level ?? 0, share)', 'share'],
    ['a share that is being given up is not used', 'own?.isYielding === true', 'false'],
  ]),
  ...of('shared/limits/standing-share.ts', shares, [
    ['clocks differ by a second', 'const knownMs = cutOffMs + 1000', 'const knownMs = cutOffMs'],
    [
      'an id that ended keeps its share of the minute, not its claim only',
      'return Math.max(cell?.claim ?? 0, cell?.yields === true ? 0 : this.of(limit, row));',
      'return cell?.claim ?? 0;',
    ],
    [
      'a moment that is too far ahead is replaced',
      'if (isOfNow && (this.#isKnown ||',
      'if ((this.#isKnown ||',
    ],
  ]),
  ...of('shared/limits/claims-rows.ts', shares, [
    [
      'shares are fractions',
      'return Math.floor((parts * (limit - above) - below * limit) / parts);',
      'return limit - above - below * Math.floor(limit / parts);',
    ],
  ]),
  ...of('shared/limits/claims-fold.ts', shares, [
    ['who has another clock than the log joins no minute', 'isTrue || known', 'true || known'],
    [
      'a share of what is in flight is used once all know of it',
      'state.isKnown && !state.ended',
      '!state.ended',
    ],
    [
      'what those that ended may have used nobody waits for',
      'return Math.max(claim, isMember',
      'return Math.min(claim, isMember',
    ],
  ]),
  ...of('shared/limits/log-clock.ts', clocks, [
    ['a clock that was set changes no label', 'this.#aheadMs -= movedMs;', ''],
    [
      'what was sent by a clock before it was set proves nothing',
      'this.#sentMs.clear();\n    }\n    this',
      '}\n    this',
    ],
    ['a small difference is followed', 'Math.abs(aheadMs) > clockOffMs ? aheadMs : 0', 'aheadMs'],
  ]),
  ...of('shared/log/embedded/log-time.ts', logTime, [
    ['the time of a log continues', 'const atMs = isHeld ?', 'const atMs = wallMs < 0 ?'],
    ['a clock that all have is right', 'nowMs - offSinceMs <= heldMs', 'nowMs >= offSinceMs'],
    [
      'a clock that one has is not',
      'if (Math.abs(wallMs - atMs - elapsedMs) <= toleranceMs) return undefined;',
      '',
    ],
  ]),
  ...of('shared/limits/claims-rows.ts', simulation, [
    ['the shares of others are left alone', 'row.below - Number(reserves)', '0'],
  ]),
  ...of('shared/limits/claimant.ts', simulation, [
    ['a gateway that is cut off has a share', 'Math.floor(limit.limit / this.#live)', 'limit.limit'],
    ['only the first request goes ahead of its claim', '(used === 0 && this', '(used >= 0 && this'],
    ['a process ends later than it uses its claims', 'const endedMs = 10_000', 'const endedMs = 3000'],
    ['a clean stop claims no more than was used', 'claim: entry.used', 'claim: entry.claim'],
    [
      'a request waits for its claim',
      'const waiter = this.#waiters.add(own, weight, untilMs, done);',
      'const waiter = untilMs < 0 ? this.#waiters.add(own, weight, untilMs, done) : undefined;',
    ],
    [
      'a smaller claim holds from when it is sent',
      'const granted = Math.min(claim, smallest);',
      'const granted = claim;',
    ],
  ]),
  ...of('shared/limits/claimant.ts', rules, [
    ['what ends above the limit is not replaced', 'granted + excess', 'granted'],
    ['without the log a gateway is cut off', 'return this.feedAgeMs(nowMs) > cutOffMs;', 'return false;'],
    [
      'what was granted in flight counts for eight seconds',
      'this.feedAgeMs(nowMs) > renewMs;\n      return',
      'this.feedAgeMs(nowMs) > 1e9;\n      return',
    ],
    [
      'a first request goes ahead where enough is left for all',
      'return weight * this.#live <= limit.limit - (row?.claimed ?? 0);',
      'return true;',
    ],
    [
      'a first request goes ahead',
      'return weight * this.#live <= limit.limit - (row?.claimed ?? 0);',
      'return false;',
    ],
    [
      'none goes ahead while another holds all room',
      ' || this.#fold.alone !== undefined) return false;',
      ') return false;',
    ],
    ['who was alone holds all room until it is cut off', 'const silentMs = 2500', 'const silentMs = 500'],
    [
      'another id is taken before others end it',
      'if (this.#readN > 0 && nowMs - this.#readSentMs > renewMs) this.#renew();',
      '',
    ],
    [
      'another id is taken after others ended it',
      'if (this.#fold.hasEnded(this.#process)) this.#renew();',
      '',
    ],
    [
      'what was not published counts under the next id',
      ': Math.min(own.used, this.#share.reserved(own));',
      ': own.used;',
    ],
    ['what was published counts once', ': Math.min(own.used, this.#share.reserved(own));', ': 0;'],
    [
      'what is in flight goes with the next id',
      'window === inFlightWindow ? 0 : Math.min',
      'window < inFlightWindow ? 0 : Math.min',
    ],
    [
      'silence is proven by the log',
      'silentBefore(this.#readSentMs - endedMs',
      'silentBefore(this.#tickMs - endedMs',
    ],
    ['who is silent loses all room', '([process]) => process === this.#fold.alone', '() => false'],
    ['who is silent ends', '...this.#fold.silentBefore(this.#readSentMs - endedMs, this.#process)', ''],
    [
      'a start ends its predecessor',
      'if (options.predecessor !== undefined)',
      "if (options.predecessor === '')",
    ],
    [
      'a clean stop ends the process',
      '[[this.#process, Number.MAX_SAFE_INTEGER], ...rest.ended]',
      'rest.ended',
    ],
    [
      'who gave all room up is not alone before that is read',
      'this.#fold.alone === this.#process && this.#yieldedN <= this.#readN',
      'this.#fold.alone === this.#process',
    ],
    [
      'all room is given up when another is live',
      'this.isAlone && this.#fold.live > 1',
      'this.isAlone && this.#fold.live < 1',
    ],
    ['who was alone publishes at once what it used', ' || (yields && own.used > 0)', ''],
    [
      'who is the only one takes all room',
      'this.#fold.live === 1 && this.#readN > 0',
      'this.#fold.live === 0 && this.#readN > 0',
    ],
    [
      'nobody takes all room while others are live',
      'this.#fold.live === 1 && this.#readN > 0',
      'this.#readN > 0',
    ],
    ['who was alone does so at once', 'if (this.isAlone) this.#isUrgent = true;', ''],
  ]),
  ...of('shared/limits/claimant.ts', waits, [
    ['what cannot fit is refused', "? 'never' : 'waits'", "? 'waits' : 'waits'"],
    [
      'after a pause the log is read first',
      'if (this.isCutOff(nowMs) && !this.#hasResumed(nowMs)) return',
      'if (this.isCutOff(nowMs)) return',
    ],
  ]),
  ...of('shared/limits/claims-fold.ts', waits, [
    ['what was in flight a while ago may have ended', 'nowMs - cell.atMs <= certainMs', 'true'],
  ]),
  ...of('shared/limits/room-queue.ts', waits, [
    [
      'who is released counts before those behind it',
      "if (result === 'fits') ahead.set(own, before + weight);",
      '',
    ],
    ['of one limit few enough wait', 'if (count >= waitersMax) return undefined;', ''],
  ]),
];

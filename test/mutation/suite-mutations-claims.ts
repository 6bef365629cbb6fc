/** Mutations of the rules of claims: the tests of each rule, or the simulation of gateways, must notice the loss of each. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const simulation = ['test/limits/claims.test.ts'];
const fold = ['shared/limits/claims-fold.test.ts'];
const rules = ['shared/limits/claimant.test.ts'];

export const claimsMutations: readonly SuiteMutation[] = [
  ...of('shared/limits/claims-fold.ts', simulation, [
    ['a record that is doubled or late is skipped', '(known.ended || n <= known.n)', '(known.ended)'],
  ]),
  ...of('shared/limits/claims-fold.ts', fold, [
    [
      'the claims of a minute outlive their process',
      'if (row.window === inFlightWindow)',
      'if (row.window >= inFlightWindow)',
    ],
    ['a process that has ended does not return', '(known.ended || n <= known.n)', '(n <= known.n)'],
    ['a process keeps what it holds', 'Math.max(held, room)', 'room'],
    ['no more is granted than is left', 'Math.min(asked, Math.max(held, room))', 'asked'],
    ['what was used counts', 'Math.max(used, Math.min', 'Math.max(0, Math.min'],
    ['who ended lacks nothing', '{ ...cell, asked: cell.claim }', 'cell'],
    ['nothing came between who takes all room', 'lastOfOthers <= alone && ', ''],
    ['no process that has ended takes all room', ' && !this.hasEnded(process)', ''],
    ['a later record is no silence', 'known.ended || known.offset > seen', 'known.ended'],
  ]),
  ...of('shared/limits/own-limit.ts', rules, [
    ['a quarter of the rest is claimed beyond what is used', 'Math.floor(rest / 4)', 'rest'],
    [
      'what was not read back is published again',
      "return ageMs >= repeatMs ? 'at the tick' : 'no';",
      "return 'no';",
    ],
    ['what is held is repeated', "ageMs >= heldMs ? 'at the tick' : 'no'", "ageMs >= heldMs ? 'no' : 'no'"],
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
  ]),
  ...of('shared/limits/claimant.ts', rules, [
    ['what ends above the limit is not replaced', 'granted + Math.min(0, left)', 'granted'],
    [
      'what was not published counts under the next id',
      'own.renew(Math.min(own.used, claimed))',
      'own.renew(own.used)',
    ],
    [
      'silence is proven by the log',
      'if (this.#readSentMs - foldedMs >= ms',
      'if (this.#tickMs - foldedMs >= ms',
    ],
    ['who was alone publishes at once what it used', ' || (yields && own.used > 0)', ''],
  ]),
];

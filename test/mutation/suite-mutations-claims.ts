/** Mutations of the rules of claims: the simulation of gateways must notice the loss of each. */
import { mutationsOf as of, type SuiteMutation } from './suite-runner.ts';

const simulation = ['test/limits/claims.test.ts'];

export const claimsMutations: readonly SuiteMutation[] = [
  ...of('shared/limits/claims-fold.ts', simulation, [
    ['a record that is doubled or late is skipped', '(known.ended || n <= known.n)', '(known.ended)'],
    [
      'the claims of a minute outlive their process',
      'if (row.window === inFlightWindow)\n        this.#set',
      'if (row.window >= inFlightWindow)\n        this.#set',
    ],
  ]),
  ...of('shared/limits/claimant.ts', simulation, [
    ['a gateway that is cut off has a share', 'Math.floor(limit.limit / this.#live)', 'limit.limit'],
    ['only the first request goes ahead of its claim', '(used === 0 && this', '(used >= 0 && this'],
    ['a process ends later than it uses its claims', 'const endedMs = 10_000', 'const endedMs = 3000'],
    [
      'a request waits for its claim',
      'const waiter = this.#waiters.add(own, weight, untilMs, done);',
      'const waiter = untilMs < 0 ? this.#waiters.add(own, weight, untilMs, done) : undefined;',
    ],
  ]),
];

/**
 * Size limits of request bodies, by kind. Each route declares the kind of its body. Member names cost the most per byte to
 * parse, so their number is limited too. Parsing the worst body takes this much CPU time, in ms: tiny 1, small 4, list 14,
 * fleet 280. A fleet of 10 000 organisations with ten members each has 240 000 names and takes 480 ms; only the operator
 * sends one.
 */
import type { BodyKind } from '../../schemas/admin/admin-row.ts';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import type { JsonBounds } from '../../shared/runtime/json-scan.ts';

export interface BodyLimit {
  readonly bytes: number;
  readonly json: JsonBounds;
}

const KiB = 1024;
const depth = 16;

export const bodyLimits = {
  /** Limits for callers who are not signed in, and for routes without a body. */
  tiny: { bytes: 4 * KiB, json: { depth, names: 500, values: 1000 } },
  small: { bytes: 64 * KiB, json: { depth, names: 2000, values: 10_000 } },
  /** Limits for lists of models, which have at most 10 000 entries. */
  list: { bytes: 1024 * KiB, json: { depth, names: 12_000, values: 25_000 } },
  fleet: { bytes: 8 * 1024 * KiB, json: { depth, names: 250_000, values: 500_000 } },
} as const satisfies Readonly<Record<BodyKind, BodyLimit>>;

const MiB = 1024 * KiB;

/** Memory for request bodies on all listeners of this process. A body is kept only until it is parsed. */
export class BodyBudgets {
  readonly callers = new BodyBudget(96 * MiB, 24 * MiB);
  /** Unknown callers share a separate budget, divided among addresses, so they cannot use up the budget of known callers. */
  readonly unknown = new BodyBudget(40 * MiB, MiB);
}

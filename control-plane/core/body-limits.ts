/**
 * How large bodies of requests may be, by kind; each route declares its kind. Parsing happens on the event loop, so what costs
 * most for its bytes is bounded, too: distinct names, each in an object of its own. The worst body of a kind was measured, in ms
 * of processor time of `JSON.parse`: tiny 1, small 4, list 14. A fleet of 10 000 organisations with ten members each has 240 000
 * names and takes 480: 50 to parse, 250 to check, and the rest to compare with the state. Only the operator sends one, and the
 * worst body of that kind is parsed in 280.
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
  /** All that anybody may send who is not signed in, and for routes that have no body. */
  tiny: { bytes: 4 * KiB, json: { depth, names: 500, values: 1000 } },
  small: { bytes: 64 * KiB, json: { depth, names: 2000, values: 10_000 } },
  /** Lists of models: there are 10 000 at most. */
  list: { bytes: 1024 * KiB, json: { depth, names: 12_000, values: 25_000 } },
  fleet: { bytes: 8 * 1024 * KiB, json: { depth, names: 250_000, values: 500_000 } },
} as const satisfies Readonly<Record<BodyKind, BodyLimit>>;

const MiB = 1024 * KiB;

/** The memory of the bodies of all listeners of this process, which are held only until they are parsed. */
export class BodyBudgets {
  readonly callers = new BodyBudget(96 * MiB, 24 * MiB);
  /** A caller that is not known has a share by address, apart, so that they never use up what is there for known ones. */
  readonly unknown = new BodyBudget(40 * MiB, MiB);
}

/**
 * Index of many candidate nodes, which makes choosing among a thousand about as cheap as choosing among ten. All gateways
 * select the same few candidates for a key and compare only those. An index stays valid until one of the nodes changes.
 */
import { combine, RollingHash } from '../surfaces/common/rolling-hash.ts';

interface NodeCandidate {
  readonly node: string;
}

/** Number of buckets. Each contains few nodes. It must never change, because almost every key would move. */
const bucketsCount = 64;
const scoreSpan = 2 ** 53;

/**
 * Divides candidates into buckets by the hash of their names. Rendezvous hashing, weighted by the buckets' sizes, orders the
 * buckets for each key. When a node is lost, its own keys move, and about as many other keys of its bucket.
 */
export class ManyCandidates<Of extends NodeCandidate> {
  readonly list: readonly Of[];
  readonly byName: ReadonlyMap<string, Of>;
  readonly #buckets: readonly (readonly Of[])[];

  constructor(list: readonly Of[]) {
    const buckets = Array.from({ length: bucketsCount }, (): Of[] => []);
    for (const candidate of list) {
      const hash = new RollingHash(1);
      hash.add(candidate.node);
      buckets[hash.value % bucketsCount]?.push(candidate);
    }
    this.list = list;
    this.byName = new Map(list.map((candidate) => [candidate.node, candidate]));
    this.#buckets = buckets;
  }

  /** Candidates for a key: all nodes of the buckets that rank first, at least `count` nodes if there are so many. */
  takeFirst(key: number, count: number): readonly Of[] {
    const scores = this.#buckets.map((bucket, at) => ({
      bucket,
      score: scoreBucket(bucket.length, at, key),
    }));
    const first: Of[] = [];
    while (first.length < count) {
      let best = scores[0];
      for (const each of scores) if (best === undefined || each.score > best.score) best = each;
      if (best === undefined || best.score === Number.NEGATIVE_INFINITY) break;
      first.push(...best.bucket);
      best.score = Number.NEGATIVE_INFINITY;
    }
    return first;
  }
}

/** Score that ranks a bucket for a key. The logarithm makes the chance of ranking first proportional to `weight`. */
function scoreBucket(weight: number, bucket: number, key: number): number {
  if (weight === 0) return Number.NEGATIVE_INFINITY;
  return -weight / Math.log((combine(bucket + 1, key) + 0.5) / scoreSpan);
}

/**
 * An index over many candidate nodes, so that choosing among a thousand costs about as much as among ten. All gateways select
 * the same few candidates for a key and compare only those. It is kept until one of the nodes changes.
 */
import { combine, RollingHash } from '../surfaces/common/rolling-hash.ts';

interface Named {
  readonly node: string;
}

/** Number of buckets: enough that each contains few nodes. It must never change, because that would move every key. */
const bucketsCount = 64;
const scoreSpan = 2 ** 53;

/**
 * Candidates in buckets, by the hash of their names. A key orders the buckets by rendezvous hashing, weighted by size. Losing
 * a node moves its keys and about as many others of its bucket.
 */
export class ManyCandidates<Of extends Named> {
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

  /** Returns the buckets that rank first for the key, whole, until they contain at least `count` candidates. */
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

/** Score of a bucket for a key. The logarithm makes a bucket's chance of ranking first proportional to its weight. */
function scoreBucket(weight: number, bucket: number, key: number): number {
  if (weight === 0) return Number.NEGATIVE_INFINITY;
  return -weight / Math.log((combine(bucket + 1, key) + 0.5) / scoreSpan);
}

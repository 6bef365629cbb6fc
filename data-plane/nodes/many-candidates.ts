/**
 * What is kept ready of a list of many candidates, so that to choose among a thousand costs what it costs among ten: a key gives
 * the same few of them at all gateways, and few are asked how busy they are. The list itself is remembered by the look-up
 * until a node of it comes or goes, so all of this is made as seldom.
 */
import { combine, RollingHash } from '../surfaces/common/rolling-hash.ts';

interface Named {
  readonly node: string;
}

/** So many groups that one of them holds few nodes; the same number always, because with another one all keys would move. */
const bucketsCount = 64;
const scoreSpan = 2 ** 53;

/**
 * The candidates in buckets by the hash of their names. A key orders the buckets by weighted rendezvous, the weight being the
 * number of nodes: a node that is lost moves its own keys and about as many others of its bucket.
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

  /** At least so many of them, in whole buckets: those that are first for the key. */
  firstOf(key: number, count: number): readonly Of[] {
    const scores = this.#buckets.map((bucket, at) => ({ bucket, score: scoreOf(bucket.length, at, key) }));
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

/** The logarithm makes the chance of a bucket to be first proportional to its weight. */
function scoreOf(weight: number, bucket: number, key: number): number {
  if (weight === 0) return Number.NEGATIVE_INFINITY;
  return -weight / Math.log((combine(bucket + 1, key) + 0.5) / scoreSpan);
}

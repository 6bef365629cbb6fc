/**
 * Chooses one of several equal nodes for a request, so that prompts with a common prefix reach a node that has cached it.
 * Each prefix has a home, a node that rendezvous hashing selects. So all gateways agree on it, and losing a node moves only
 * that node's prompts. A prefix with too much load for one node, such as a common system prompt, gets several homes, and the
 * next longer prefix chooses among them.
 *
 * A node that is busier than the others gets no prompts that are new to it. A table remembers which other node got such a
 * prompt, and reports share this with the other gateways. Keys depend on a secret and on the tenant, so no tenant can aim
 * requests at another tenant's nodes.
 */
import {
  type PlacementReport,
  type PromptPlacement,
  placementsMax,
} from '../../schemas/records/placements.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import { combine, RollingHash } from '../surfaces/common/rolling-hash.ts';
import type { NodeLoad } from './load.ts';
import { ManyCandidates } from './many-candidates.ts';
import { PrefixTable } from './prefix-table.ts';

/** Why a node was chosen: it has `seen` the prefix, it is a `home` of the prefix, or all homes were busy (`spill`). */
export type ChosenBy = 'seen' | 'home' | 'spill';

export interface AffinityRequest {
  /** Tenant that sent the request. Equal prompts of different tenants have different keys. */
  readonly tenant: string;
  /** Owner of the part of the prefix table that the request uses: the tenant, unless many tenants share one part. */
  readonly sharer?: string;
  /** Identifies the model, and the place that all candidates belong to. */
  readonly group: string;
  /** Hashes of the prompt's prefixes, shortest first. Empty if no other prompt could use the same prefix. */
  readonly prefixes: readonly number[];
}

/** Selects a node among a request's candidates, or returns undefined if there are none. */
export type NodeChooser = (candidates: readonly Route[]) => Route | undefined;

export interface AffinityOptions {
  readonly load: NodeLoad;
  /** Secret shared by all gateways, so that they choose alike. */
  readonly secret: string;
  readonly table?: PrefixTable;
  /** Returns the current time of a monotonic clock, in ms. */
  readonly now?: () => number;
}

interface Candidate {
  readonly node: string;
}

/** State of the requests for one model in one place. */
interface Group {
  requests: number;
  /** Average requests in flight per candidate, when it was computed (monotonic ms), and the requests counted since then. */
  mean: number;
  meanMs: number;
  meanRequests: number;
}

interface KeyedPrefixes {
  readonly sharer: string;
  readonly prefixes: readonly number[];
  readonly seed: number;
}

/** One prefix of a prompt, and the candidates that are the prefix's homes. */
interface Level<Of> {
  /** Position of the prefix in the prompt's list of prefixes. */
  readonly at: number;
  readonly key: number;
  /** Candidates among which the homes were selected. */
  readonly among: readonly Of[];
  readonly homes: readonly Of[];
}

/** A node with fewer requests in flight than this accepts any prompt, because engines process several requests at once. */
const inFlightAlways = 2;
/** Load, as a multiple of the average, at which a node stops getting prompts that are new to it. */
const newFactor = 1.2;
/** Load, as a multiple of the average, at which a node stops getting even prompts that it has seen, despite its cache. */
const seenFactor = 3;
/** A prefix gets one more home for each such share of a node's load. */
const loadPerHome = 0.5;
/**
 * Half-life, in requests, of a request's contribution to the weight of its prefixes: the minimum, and a number per candidate.
 * If the half-life were shorter, a single request could look like most of a node's load.
 */
const weightHalfLife = { min: 256, perCandidate: 4 };
/** Age in ms at which a prompt has probably been evicted from the engine's cache. */
const seenMs = 600_000;
const groupsMax = 1024;
/** Number of candidates above which only a few of the candidates are compared. */
const manyFrom = 64;
/** The average load of many candidates is reused for 100 ms, or for one request per 8 candidates if that ends sooner. */
const meanEveryMs = 100;
const meanShare = 8;
/** Minimum number of candidates that are compared if there are many. */
const fewMin = 32;
/** Maximum number of homes with which a prefix may select candidates. If it has more, the next longer prefix selects. */
const homesMost = 64;

export class Affinity {
  /** Number of choices for each reason since the process started, for metrics. */
  readonly chosen: Record<ChosenBy, number> = { seen: 0, home: 0, spill: 0 };
  readonly #load: NodeLoad;
  readonly #secret: number;
  readonly #table: PrefixTable;
  readonly #unreported = new PrefixTable(placementsMax);
  readonly #now: () => number;
  readonly #groups = new BoundedMap<string, Group>(groupsMax, 'oldest');
  readonly #many = new WeakMap<readonly Candidate[], ManyCandidates<Candidate>>();

  constructor({ load, secret, table = new PrefixTable(), now = () => performance.now() }: AffinityOptions) {
    this.#load = load;
    this.#secret = hashText(0, secret);
    this.#table = table;
    this.#now = now;
  }

  /** Chooses one of the candidates, which must all serve the same place. Returns undefined if there are none. */
  choose<Of extends Candidate>(candidates: readonly Of[], request: AffinityRequest): Of | undefined {
    const isMany = candidates.length > manyFrom;
    const open = isMany ? candidates : this.#load.open(candidates);
    const prefixes = open.length > 1 ? request.prefixes : [];
    if (prefixes.length === 0) return this.#load.choose(open);
    const { tenant, sharer = tenant } = request;
    const seed = hashText(hashText(this.#secret, request.group), tenant);
    const group = this.#findGroup(request.group);
    const keyed = { sharer, prefixes, seed };
    if (isMany) return this.#chooseAmongMany(candidates, group, keyed);
    const mean = this.#load.mean(open);
    return this.#place(open, mean, this.#levels(open, group, mean, keyed), keyed);
  }

  /** Chooses among many nodes by comparing only a few: the prompt's last node, and nodes that one of its prefixes selects. */
  #chooseAmongMany<Of extends Candidate>(
    candidates: readonly Of[],
    group: Group,
    keyed: KeyedPrefixes,
  ): Of | undefined {
    const many = this.#indexCandidates(candidates);
    const mean = this.#meanLoad(candidates, group);
    const levels = this.#levels(many, group, mean, keyed);
    const [first] = levels;
    // Each prefix of the prompt is in very many requests, so every node has probably cached it.
    if (first === undefined) return this.#load.choose(candidates);
    const few = [...first.among];
    const seen = many.byName.get(this.#lastSeen(keyed).node ?? '');
    if (seen !== undefined && !few.includes(seen)) few.push(seen);
    const open = few.filter(({ node }) => !this.#load.isEjected(node));
    if (open.length === 0) return this.#load.choose(candidates);
    return this.#place(open, mean, levels, keyed);
  }

  /** Average load of many candidates. Recomputed only occasionally, because computing it takes longer than a choice. */
  #meanLoad(candidates: readonly Candidate[], group: Group): number {
    const nowMs = this.#now();
    group.meanRequests += 1;
    if (nowMs - group.meanMs >= meanEveryMs || group.meanRequests >= candidates.length / meanShare) {
      group.mean = this.#load.mean(this.#load.open(candidates));
      group.meanMs = nowMs;
      group.meanRequests = 0;
    }
    return group.mean;
  }

  #indexCandidates<Of extends Candidate>(candidates: readonly Of[]): ManyCandidates<Of> {
    let many = this.#many.get(candidates);
    if (many === undefined) {
      many = new ManyCandidates<Candidate>(candidates);
      this.#many.set(candidates, many);
    }
    return many as ManyCandidates<Of>;
  }

  /** Chooses among the given nodes by their load, and remembers the choice. */
  #place<Of extends Candidate>(
    open: readonly Of[],
    mean: number,
    levels: readonly Level<Of>[],
    { sharer, prefixes, seed }: KeyedPrefixes,
  ): Of {
    const deciding = levels[levels.length - 1];
    const below = (factor: number): readonly Of[] => {
      const most = Math.max(inFlightAlways, factor * mean);
      return open.filter(({ node }) => this.#load.inFlight(node) < most);
    };
    const taking = below(newFactor);
    const { at, node: last } = this.#lastSeen({ sharer, prefixes, seed });
    // If the prefix still has several homes, it may be common, so spread its requests by using the lower load limit.
    const seen = (at > (deciding?.at ?? -1) ? below(seenFactor) : taking).find(({ node }) => node === last);
    const chosen = seen ?? pickHome(taking.length > 0 ? taking : open, levels);
    const homes = deciding?.homes ?? [];
    this.chosen[seen ? 'seen' : homes.includes(chosen) ? 'home' : 'spill'] += 1;
    const key = combine(prefixes[prefixes.length - 1] ?? 0, seed);
    this.#remember([sharer, key, chosen.node]);
    // Do not report a choice that other gateways would make, too: the node that has seen the prompt, or its first home.
    if (chosen.node !== (last ?? pickBest(open, levels[0]?.key ?? 0)?.node))
      this.#unreported.use(sharer, key).node = chosen.node;
    return chosen;
  }

  #remember([sharer, key, node]: PromptPlacement): void {
    const entry = this.#table.use(sharer, key);
    entry.node = node;
    entry.placedMs = this.#now();
  }

  /** Returns this gateway's load per node, and the choices made since the last call that other gateways must know. */
  report(): Omit<PlacementReport, 'process'> {
    return { loads: this.#load.ownLoads(), placements: this.#unreported.takeAll() };
  }

  /** Applies the loads and choices that another gateway reports. */
  receive({ process, loads, placements }: PlacementReport): void {
    this.#load.receive(process, loads);
    for (const placement of placements) this.#remember(placement);
  }

  /** Computes the homes of each prefix, until only one home is left. For many candidates, skips prefixes with many homes. */
  #levels<Of extends Candidate>(
    open: readonly Of[] | ManyCandidates<Of>,
    group: Group,
    mean: number,
    { sharer, prefixes, seed }: KeyedPrefixes,
  ): Level<Of>[] {
    const many = open instanceof ManyCandidates ? open : undefined;
    const all = open instanceof ManyCandidates ? open.list : open;
    const fade = 2 ** (-1 / Math.max(weightHalfLife.min, weightHalfLife.perCandidate * all.length));
    const levels: Level<Of>[] = [];
    let homes = all;
    for (const [at, prefix] of prefixes.entries()) {
      const key = combine(prefix, seed);
      const entry = this.#table.use(sharer, key);
      entry.weight = entry.weight * fade ** (group.requests - entry.sequence) + 1;
      entry.sequence = group.requests;
      const share = (entry.weight * (1 - fade)) / (1 - fade ** group.requests);
      const needed = Math.max(
        1,
        Math.ceil((share * mean * all.length) / (loadPerHome * Math.max(mean, inFlightAlways))),
      );
      if (many !== undefined && homes === all) {
        if (needed > homesMost) continue;
        homes = many.takeFirst(key, Math.max(fewMin, needed));
      }
      const among = homes;
      homes = firstHomes(among, key, needed);
      levels.push({ at, key, among, homes });
      if (homes.length === 1) break;
    }
    return levels;
  }

  /** Finds the longest of these prefixes that some node received recently, and that node. */
  #lastSeen({ sharer, prefixes, seed }: KeyedPrefixes): { readonly at: number; readonly node?: string } {
    const sinceMs = this.#now() - seenMs;
    for (let at = prefixes.length - 1; at >= 0; at -= 1) {
      const entry = this.#table.get(sharer, combine(prefixes[at] ?? 0, seed));
      if (entry?.node !== undefined && entry.placedMs >= sinceMs) return { at, node: entry.node };
    }
    return { at: -1 };
  }

  #findGroup(name: string): Group {
    const group = this.#groups.get(name) ?? { requests: 0, mean: 0, meanMs: -meanEveryMs, meanRequests: 0 };
    group.requests += 1;
    return this.#groups.keep(name, group);
  }
}

/** The `count` candidates that rank first for the key. */
function firstHomes<Of extends Candidate>(among: readonly Of[], key: number, count: number): readonly Of[] {
  if (count >= among.length) return among;
  const best = count === 1 ? pickBest(among, key) : undefined;
  if (best !== undefined) return [best];
  const scored = among.map((candidate) => ({ candidate, score: scoreNode(candidate, key) }));
  scored.sort((a, b) => b.score - a.score);
  return scored.slice(0, count).map(({ candidate }) => candidate);
}

function pickBest<Of extends Candidate>(among: readonly Of[], key: number): Of | undefined {
  let best: Of | undefined;
  let bestScore = -1;
  for (const candidate of among) {
    const score = scoreNode(candidate, key);
    if (score <= bestScore) continue;
    best = candidate;
    bestScore = score;
  }
  return best;
}

/** Picks the best home that takes more requests, beginning with the homes of the longest prefix. */
function pickHome<Of extends Candidate>(taking: readonly Of[], levels: readonly Level<Of>[]): Of {
  for (let at = levels.length - 1; at >= 0; at -= 1) {
    const { key, homes } = levels[at] as Level<Of>;
    const best = pickBest(
      homes.filter((home) => taking.includes(home)),
      key,
    );
    if (best !== undefined) return best;
  }
  return pickBest(taking, levels[0]?.key ?? 0) as Of;
}

function scoreNode({ node }: Candidate, key: number): number {
  return combine(hashText(0, node), key);
}

function hashText(seed: number, text: string): number {
  const hash = new RollingHash(seed);
  hash.add(text);
  return hash.value;
}

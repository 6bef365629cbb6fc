/**
 * Which of several equal nodes gets a request, so that prompts with a common prefix meet where it is cached.
 *
 * Rendezvous hashing with bounded loads: the first prefix of the prompt has a home among the candidates, which follows from
 * the key alone, so that all gateways agree without speaking and a node that is lost moves only what was its own. A prefix
 * that draws more than a node's share of the load (a system prompt that all have) has as many homes as its load needs, and
 * the next longer prefix chooses among them. Prefixes behind the deciding one are kept in a table: a conversation that was
 * sent elsewhere because its home was full stays there. A node above 1.35 times the mean of the candidates takes none that is
 * new to it, and one above 1.5 times the mean none at all. A burst spreads at once, although the average shows it late.
 * The load is that of this gateway's own requests. Of many candidates a key selects a few first, and the rule is applied to those.
 * Keys are keyed by a secret that gateways share and by the tenant, so no tenant can aim at the node of another.
 */
import type { Route } from '../../shared/snapshot/lookup.ts';
import { combine, RollingHash } from '../core/rolling-hash.ts';
import type { NodeLoad } from './load.ts';
import { ManyCandidates, SampledLoads } from './many-candidates.ts';
import { PrefixTable } from './prefix-table.ts';

/** How a node was found: by the table, as a home of a prefix, or because those were full. */
export type ChosenBy = 'seen' | 'home' | 'spill';

export interface AffinityRequest {
  /** Whose prompts have keys of their own. */
  readonly tenant: string;
  /** Who has a share of the table: the tenant, unless many share one. */
  readonly sharer?: string;
  /** Names the model and the place: the requests that the candidates are for. */
  readonly group: string;
  /** Hashes of the prompt's prefixes, from short to long; none where there is no prompt to share. */
  readonly prefixes: readonly number[];
}

/** Selects one of the candidates of a request; undefined where there are none. */
export type NodeChooser = (candidates: readonly Route[]) => Route | undefined;

export interface AffinityOptions {
  readonly load: NodeLoad;
  /** The same in all gateways. */
  readonly secret: string;
  readonly table?: PrefixTable;
  /** Monotonic, ms. */
  readonly now?: () => number;
}

interface Candidate {
  readonly node: string;
}

/** What is known of the requests of one model in one place. */
interface Group {
  requests: number;
  /** By node: requests in flight, averaged over time. */
  readonly loads: Map<string, number>;
  /** Of many candidates. */
  sampled?: SampledLoads;
  atMs: number;
}

/** Requests in flight, averaged over time: by node, and the mean of all candidates. */
interface Load extends Pick<Group, 'loads'> {
  readonly mean: number;
}

interface KeyedPrefixes {
  readonly sharer: string;
  readonly prefixes: readonly number[];
  readonly seed: number;
}

/** One prefix, and the candidates that are its homes. */
interface Level<Of> {
  /** Which of the prefixes. */
  readonly at: number;
  readonly key: number;
  /** Of which the homes are the first. */
  readonly among: readonly Of[];
  readonly homes: readonly Of[];
}

/** Above the mean, a node refuses more and more of the prefixes: all of them at 1.35 times the mean. */
const loadBand = 0.35;
/** What it has seen lately it takes up to this times the mean: to move costs the node that it moves to the whole prompt. */
const loadSeenMost = 1.5;
/** Never more than this times the mean at one moment. */
const loadFactorMost = 3;
/** The same in a burst: more are in flight than this times what the average shows, which says nothing of it yet. */
const burstFactor = 4;
const loadFactorInBurst = 1 + loadBand;
/** A node takes so many on average, and at one moment, whatever the mean: an engine works on several at once. */
const loadAlways = 1.5;
const loadAlwaysNow = 2;
/** One gateway sees a part of the load, so it counts the average of this time. */
const loadSpanMs = 30_000;
/** A prefix gets a further home for each such part of a node's load. */
const loadPerHome = 0.5;
/** Requests after which one counts half in the weight of a prefix. */
const weightHalfLife = 256;
const fade = 2 ** (-1 / weightHalfLife);
/** Engines have evicted what is older, most likely. */
const seenMs = 600_000;
const groupsMax = 1024;
/** Of more candidates than this, the rule looks at a few. */
const manyFrom = 64;
/** So many at least, of which one is chosen. */
const fewMin = 32;
/** A prefix with more homes than this does not select any: the next longer one does. */
const homesMost = 64;

export class Affinity {
  /** Choices since the start, for metrics. */
  readonly chosen: Record<ChosenBy, number> = { seen: 0, home: 0, spill: 0 };
  readonly #load: NodeLoad;
  readonly #secret: number;
  readonly #table: PrefixTable;
  readonly #now: () => number;
  readonly #groups = new Map<string, Group>();
  readonly #many = new WeakMap<readonly Candidate[], ManyCandidates<Candidate>>();

  constructor({ load, secret, table = new PrefixTable(), now = () => performance.now() }: AffinityOptions) {
    this.#load = load;
    this.#secret = hashOf(0, secret);
    this.#table = table;
    this.#now = now;
  }

  /** One of the candidates, which are of one place; undefined where there are none. */
  choose<Of extends Candidate>(candidates: readonly Of[], request: AffinityRequest): Of | undefined {
    const isMany = candidates.length > manyFrom;
    const open = isMany ? candidates : this.#load.open(candidates);
    const prefixes = open.length > 1 ? request.prefixes : [];
    if (prefixes.length === 0) return this.#load.choose(open);
    const { tenant, sharer = tenant } = request;
    const seed = hashOf(hashOf(this.#secret, request.group), tenant);
    const group = this.#groupOf(request.group);
    const keyed = { sharer, prefixes, seed };
    if (isMany) return this.#chooseAmongMany(candidates, group, keyed);
    this.#average(group, open);
    const known: Load = { loads: group.loads, mean: meanOf(open, group) };
    return this.#place(open, known, this.#levels(open, group, known.mean, keyed), keyed);
  }

  /** The first prefix that needs few homes selects few candidates; the node that has seen more of the prompt is one of them. */
  #chooseAmongMany<Of extends Candidate>(
    candidates: readonly Of[],
    group: Group,
    keyed: KeyedPrefixes,
  ): Of | undefined {
    const many = this.#manyOf(candidates);
    const nowMs = this.#now();
    group.sampled ??= new SampledLoads(loadSpanMs);
    group.atMs = nowMs;
    const mean = group.sampled.mean(many, this.#load, nowMs);
    const levels = this.#levels(many, group, mean, keyed);
    const [first] = levels;
    // All of its prefixes are of very many requests: any node has them.
    if (first === undefined) return this.#load.choose(candidates);
    const few = [...first.among];
    const seen = many.byName.get(this.#lastNode(keyed) ?? '');
    if (seen !== undefined && !few.includes(seen)) few.push(seen);
    const open = few.filter(({ node }) => !this.#load.isEjected(node));
    if (open.length === 0) return this.#load.choose(candidates);
    for (const { node } of open) group.sampled.look(node, this.#load, nowMs);
    return this.#place(open, { loads: group.sampled.loads, mean }, levels, keyed);
  }

  #manyOf<Of extends Candidate>(candidates: readonly Of[]): ManyCandidates<Of> {
    let many = this.#many.get(candidates);
    if (many === undefined) {
      many = new ManyCandidates<Candidate>(candidates);
      this.#many.set(candidates, many);
    }
    return many as ManyCandidates<Of>;
  }

  /** Chooses among nodes that are all looked at, and remembers it. */
  #place<Of extends Candidate>(
    open: readonly Of[],
    known: Load,
    levels: readonly Level<Of>[],
    { sharer, prefixes, seed }: KeyedPrefixes,
  ): Of {
    const below = this.#below(open, known.mean);
    const deciding = levels[levels.length - 1];
    const taking = takingOf(below, known, deciding?.key ?? 0);
    const rest = { sharer, prefixes: prefixes.slice((deciding?.at ?? -1) + 1), seed };
    const seen = this.#seenAt(keepingOf(below, known), rest);
    const chosen = seen ?? homeAt(taking, levels);
    const homes = deciding?.homes ?? [];
    this.chosen[seen ? 'seen' : homes.includes(chosen) ? 'home' : 'spill'] += 1;
    const entry = this.#table.use(sharer, combine(prefixes[prefixes.length - 1] ?? 0, seed));
    entry.node = chosen.node;
    entry.placedMs = this.#now();
    return chosen;
  }

  /** The nodes that have room at this moment. In a burst, no node takes more than any engine works on at once while one is idle. */
  #below<Of extends Candidate>(open: readonly Of[], averageMean: number): readonly Of[] {
    const inFlight = open.map(({ node }) => this.#load.inFlight(node));
    const mean = inFlight.reduce((sum, count) => sum + count, 0) / open.length;
    const isBurst = mean > burstFactor * averageMean;
    const factor = isBurst ? loadFactorInBurst : loadFactorMost;
    const most = isBurst && inFlight.includes(0) ? loadAlwaysNow : Math.max(loadAlwaysNow, factor * mean);
    return open.filter((_, index) => (inFlight[index] ?? 0) < most);
  }

  /**
   * The homes of one prefix after the other, each among those of the one before, until there is one home. A prefix that needs
   * very many of many candidates is passed over.
   */
  #levels<Of extends Candidate>(
    open: readonly Of[] | ManyCandidates<Of>,
    group: Group,
    mean: number,
    { sharer, prefixes, seed }: KeyedPrefixes,
  ): Level<Of>[] {
    const many = open instanceof ManyCandidates ? open : undefined;
    const all = open instanceof ManyCandidates ? open.list : open;
    const levels: Level<Of>[] = [];
    let homes = all;
    for (const [at, prefix] of prefixes.entries()) {
      const key = combine(prefix, seed);
      const entry = this.#table.use(sharer, key);
      entry.weight = entry.weight * fade ** (group.requests - entry.sequence) + 1;
      entry.sequence = group.requests;
      const share = (entry.weight * (1 - fade)) / (1 - fade ** group.requests);
      const needed = homesNeeded(share * mean * all.length, mean);
      if (many !== undefined && homes === all) {
        if (needed > homesMost) continue;
        homes = many.firstOf(key, Math.max(fewMin, needed));
      }
      const among = homes;
      homes = firstHomes(among, key, needed);
      levels.push({ at, key, among, homes });
      if (homes.length === 1) break;
    }
    return levels;
  }

  /** The node that got the longest of the prefixes lately. */
  #seenAt<Of extends Candidate>(
    among: readonly Of[],
    { sharer, prefixes, seed }: KeyedPrefixes,
  ): Of | undefined {
    const seen = this.#lastNode({ sharer, prefixes, seed });
    return seen === undefined ? undefined : among.find(({ node }) => node === seen);
  }

  #lastNode({ sharer, prefixes, seed }: KeyedPrefixes): string | undefined {
    const sinceMs = this.#now() - seenMs;
    for (let at = prefixes.length - 1; at >= 0; at -= 1) {
      const entry = this.#table.get(sharer, combine(prefixes[at] ?? 0, seed));
      if (entry?.node !== undefined && entry.placedMs >= sinceMs) return entry.node;
    }
    return undefined;
  }

  #groupOf(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = { requests: 0, loads: new Map(), atMs: this.#now() };
      if (this.#groups.size >= groupsMax) this.#forgetIdlest();
      this.#groups.set(name, group);
    }
    group.requests += 1;
    return group;
  }

  #forgetIdlest(): void {
    let idlest: string | undefined;
    let atMs = Number.POSITIVE_INFINITY;
    for (const [name, group] of this.#groups) {
      if (group.atMs >= atMs) continue;
      idlest = name;
      atMs = group.atMs;
    }
    if (idlest !== undefined) this.#groups.delete(idlest);
  }

  #average(group: Group, open: readonly Candidate[]): void {
    const nowMs = this.#now();
    const part = 1 - Math.exp((group.atMs - nowMs) / loadSpanMs);
    const { loads } = group;
    group.atMs = nowMs;
    for (const { node } of open) {
      const before = loads.get(node) ?? 0;
      loads.set(node, before + part * (this.#load.inFlight(node) - before));
    }
    // Nodes that were candidates once are forgotten.
    if (loads.size > 2 * open.length) {
      const nodes = new Set(open.map(({ node }) => node));
      for (const node of loads.keys()) if (!nodes.has(node)) loads.delete(node);
    }
  }
}

/**
 * The nodes that take one more. Which prefixes a node above the mean refuses follows from their keys, so gateways that
 * see about the same load agree on that, too; a bound that is one for all would send each prefix here and there.
 */
function takingOf<Of extends Candidate>(
  below: readonly Of[],
  { loads, mean }: Load,
  key: number,
): readonly Of[] {
  const taking = below.filter((candidate) => {
    const most = mean * (1 + (loadBand * scoreOf(candidate, key)) / scoreMax);
    return (loads.get(candidate.node) ?? 0) <= Math.max(loadAlways, most);
  });
  return taking.length > 0 ? taking : below;
}

/** The nodes that take what they have seen. */
function keepingOf<Of extends Candidate>(below: readonly Of[], { loads, mean }: Load): readonly Of[] {
  const most = Math.max(loadAlways, loadSeenMost * mean);
  return below.filter(({ node }) => (loads.get(node) ?? 0) <= most);
}

/** Requests in flight at a node, on average over time and nodes. */
function meanOf(open: readonly Candidate[], { loads }: Group): number {
  let sum = 0;
  for (const { node } of open) sum += loads.get(node) ?? 0;
  return sum / open.length;
}

/** Nodes that a prefix with so many requests in flight needs: a power of four, so that gateways agree where their figures differ. */
function homesNeeded(inFlight: number, mean: number): number {
  const parts = inFlight / (loadPerHome * Math.max(mean, loadAlways));
  return parts <= 1 ? 1 : 4 ** Math.ceil(Math.log2(parts) / 2);
}

/** The first in the order that the key gives to all nodes. */
function firstHomes<Of extends Candidate>(among: readonly Of[], key: number, count: number): readonly Of[] {
  if (count >= among.length) return among;
  const best = count === 1 ? bestOf(among, key) : undefined;
  if (best !== undefined) return [best];
  const scored = among.map((candidate) => ({ candidate, score: scoreOf(candidate, key) }));
  scored.sort((a, b) => b.score - a.score);
  return scored.slice(0, count).map(({ candidate }) => candidate);
}

function bestOf<Of extends Candidate>(among: readonly Of[], key: number): Of | undefined {
  let best: Of | undefined;
  let bestScore = -1;
  for (const candidate of among) {
    const score = scoreOf(candidate, key);
    if (score <= bestScore) continue;
    best = candidate;
    bestScore = score;
  }
  return best;
}

/** From the homes of the longest prefix outwards: the first, by the order of that prefix, that takes a request. */
function homeAt<Of extends Candidate>(taking: readonly Of[], levels: readonly Level<Of>[]): Of {
  for (let at = levels.length - 1; at >= 0; at -= 1) {
    const { key, homes } = levels[at] as Level<Of>;
    const best = bestOf(
      homes.filter((home) => taking.includes(home)),
      key,
    );
    if (best !== undefined) return best;
  }
  return bestOf(taking, levels[0]?.key ?? 0) as Of;
}

const scoreMax = 2 ** 53;

function scoreOf({ node }: Candidate, key: number): number {
  return combine(hashOf(0, node), key);
}

function hashOf(seed: number, text: string): number {
  const hash = new RollingHash(seed);
  hash.add(text);
  return hash.value;
}

/**
 * How busy each node is, as this gateway sees it, and which nodes are ejected for a while.
 * A node is ejected when no connection to it is obtained, or when it broke off several requests in a row; for a bounded
 * time that doubles, until an answer succeeds. What a client does never counts against a node, nor does an error that a
 * node answers properly, because a request can be its cause. A failure that either can be the cause of counts once
 * per tenant, so that none can eject a node for the others. Ejection orders candidates; it never empties their list.
 */

/** How an attempt ended, as evidence about the node. */
export type NodeOutcome =
  /** A whole answer. */
  | 'answered'
  /** No connection. */
  | 'unreached'
  /** A connection lost, a wait that ran out, or an invalid answer. */
  | 'broken'
  /** An answer that cannot be passed on, by the node's fault or because the request asked for it: it is too large. */
  | 'suspect'
  /** No evidence about the node: the client left, or the node answered with an error. */
  | 'neutral';

export interface NodeLoadOptions {
  /** Monotonic, ms. */
  readonly now?: () => number;
  /** From 0 up to 1. */
  readonly random?: () => number;
}

interface NodeState {
  inFlight: number;
  /** Broken attempts since the last answer. */
  broken: number;
  /** Tenants whose suspect answer is among them. */
  suspectOwners: readonly string[];
  /** Ejections since the last answer. */
  ejections: number;
  ejectedUntilMs: number;
}

const brokenInARowMax = 3;
const ejectionFirstMs = 1000;
const ejectionMaxMs = 30_000;
/** Idle nodes are kept up to so many: a map that loses and gets an entry with each request is reallocated again and again. */
const idleNodesMax = 1000;

/** Of many candidates so many are looked at while some node is ejected. */
const sampleSize = 16;

export class NodeLoad {
  readonly #nodes = new Map<string, NodeState>();
  readonly #now: () => number;
  readonly #random: () => number;
  #nodesMax = idleNodesMax;
  /** From here on no node is ejected, so none has to be looked at. */
  #ejectedUntilMs = Number.NEGATIVE_INFINITY;

  constructor({ now = () => performance.now(), random = Math.random }: NodeLoadOptions = {}) {
    this.#now = now;
    this.#random = random;
  }

  inFlight(node: string): number {
    return this.#nodes.get(node)?.inFlight ?? 0;
  }

  /** Requests in flight at all nodes together. */
  inFlightTotal(): number {
    let sum = 0;
    for (const { inFlight } of this.#nodes.values()) sum += inFlight;
    return sum;
  }

  isEjected(node: string): boolean {
    return (this.#nodes.get(node)?.ejectedUntilMs ?? 0) > this.#now();
  }

  /** Those not ejected where there are any, else all. */
  open<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    if (candidates.length <= 1 || this.#ejectedUntilMs <= this.#now()) return candidates;
    const open = candidates.filter(({ node }) => !this.isEjected(node));
    return open.length > 0 ? open : candidates;
  }

  /** The less loaded of two random candidates, among those not ejected where there are any. */
  choose<Candidate extends { readonly node: string }>(
    candidates: readonly Candidate[],
  ): Candidate | undefined {
    const among = this.#some(candidates);
    if (among.length <= 1) return among[0];
    const first = Math.floor(this.#random() * among.length);
    const step = 1 + Math.floor(this.#random() * (among.length - 1));
    const one = among[first] as Candidate;
    const other = among[(first + step) % among.length] as Candidate;
    return this.inFlight(other.node) < this.inFlight(one.node) ? other : one;
  }

  /** Those not ejected; of many candidates those of a few, evenly spread, as long as one of them is. */
  #some<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    const { length } = candidates;
    if (length <= 2 * sampleSize || this.#ejectedUntilMs <= this.#now()) return this.open(candidates);
    const from = Math.floor(this.#random() * length);
    const step = Math.floor(length / sampleSize);
    const sample = Array.from({ length: sampleSize }, (_, at) => candidates[(from + at * step) % length]);
    const open = sample.filter((each) => each !== undefined && !this.isEjected(each.node));
    return open.length > 0 ? (open as Candidate[]) : this.open(candidates);
  }

  begin(node: string): void {
    let state = this.#nodes.get(node);
    if (state === undefined) {
      if (this.#nodes.size >= this.#nodesMax) this.#forgetIdle();
      state = { inFlight: 0, broken: 0, suspectOwners: [], ejections: 0, ejectedUntilMs: 0 };
      this.#nodes.set(node, state);
    }
    state.inFlight += 1;
  }

  /** Exactly once for each `begin`. `owner`: the tenant whose request it was. */
  end(node: string, outcome: NodeOutcome, owner = ''): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    state.inFlight -= 1;
    if (outcome === 'answered') {
      if (state.broken > 0) state.suspectOwners = [];
      state.broken = 0;
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    } else if (outcome === 'broken' || (outcome === 'suspect' && isNewSuspect(state, owner))) {
      state.broken += 1;
      if (state.broken >= brokenInARowMax) this.#eject(state);
    } else if (outcome === 'unreached') {
      this.#eject(state);
    }
  }

  /** Nothing has to be remembered of a node that is idle and well, so the map is bounded by those that are not. */
  #forgetIdle(): void {
    for (const [node, { inFlight, broken, ejections }] of this.#nodes)
      if (inFlight === 0 && broken === 0 && ejections === 0) this.#nodes.delete(node);
    // So that many nodes in use are not walked each time.
    this.#nodesMax = Math.max(idleNodesMax, 2 * this.#nodes.size);
  }

  #eject(state: NodeState): void {
    // Requests that were under way when the node was ejected are no new evidence.
    if (state.ejectedUntilMs > this.#now()) return;
    state.ejectedUntilMs = this.#now() + Math.min(ejectionFirstMs * 2 ** state.ejections, ejectionMaxMs);
    this.#ejectedUntilMs = Math.max(this.#ejectedUntilMs, state.ejectedUntilMs);
    state.ejections += 1;
    state.broken = 0;
    state.suspectOwners = [];
  }
}

/** More owners than it takes to eject a node are not remembered. */
function isNewSuspect(state: NodeState, owner: string): boolean {
  const { suspectOwners } = state;
  if (suspectOwners.length >= brokenInARowMax || suspectOwners.includes(owner)) return false;
  state.suspectOwners = [...suspectOwners, owner];
  return true;
}

/**
 * How busy each node is, by this gateway's requests and the reports of other gateways, and which nodes are ejected for a while.
 * A node is ejected when no connection to it is obtained, or when it broke off several requests in a row; for a bounded
 * time that doubles, until an answer succeeds. What a client does never counts against a node, nor does an error that a
 * node answers properly, because a request can be its cause. A failure that either can be the cause of counts once
 * per tenant, so that none can eject a node for the others. A node that has answered none of its requests for a while is
 * ejected too, whether or not they were ended by their clients, who give up long before this gateway does.
 * Ejection orders candidates; it never empties their list.
 */

import type { PlacementReport } from '../../schemas/records/placements.ts';

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
  /** Requests since the node last began to answer one, and when the first of them came. */
  unanswered: number;
  unansweredSinceMs: number;
  /** When a request last came or ended. */
  lastUsedMs: number;
}

/** A busy gateway reports at least every 1.2 s, so one that was silent for this long, in ms, has stopped. */
const reportValidMs = 3000;
/** Bound on the gateways whose reports count: a fleet may have this many. */
const reportsMax = 1000;
const brokenInARowMax = 3;
const ejectionFirstMs = 1000;
const ejectionMaxMs = 30_000;
/** A node hangs if it has answered none of this many requests for this long. Requests further apart are no row. */
const unansweredMin = 3;
const hangMs = 10_000;
/** How long a node without further requests is reported as hanging, and how many nodes are. */
const reportedMs = 600_000;
const reportedMax = 20;
/** Idle nodes are kept up to so many: a map that loses and gets an entry with each request is reallocated again and again. */
const idleNodesMax = 1000;

/** Of many candidates so many are looked at while some node is ejected. */
const sampleSize = 16;

export class NodeLoad {
  readonly #nodes = new Map<string, NodeState>();
  /** Last report of each other gateway, by process. */
  readonly #reports = new Map<string, { readonly atMs: number; readonly loads: PlacementReport['loads'] }>();
  /** Sum of these reports, by node. */
  readonly #reported = new Map<string, number>();
  readonly #now: () => number;
  readonly #random: () => number;
  #nodesMax = idleNodesMax;
  /** From here on no node is ejected, so none has to be looked at. */
  #ejectedUntilMs = Number.NEGATIVE_INFINITY;

  constructor({ now = () => performance.now(), random = Math.random }: NodeLoadOptions = {}) {
    this.#now = now;
    this.#random = random;
  }

  /** Requests of this gateway and those that other gateways reported lately. */
  inFlight(node: string): number {
    return (this.#nodes.get(node)?.inFlight ?? 0) + (this.#reported.get(node) ?? 0);
  }

  /** Mean requests in flight per node. */
  mean(candidates: readonly { readonly node: string }[]): number {
    let sum = 0;
    for (const { node } of candidates) sum += this.inFlight(node);
    return sum / candidates.length;
  }

  /** This gateway's requests in flight by node, without idle nodes. Drops the reports of gateways that have fallen silent. */
  ownLoads(): PlacementReport['loads'] {
    const sinceMs = this.#now() - reportValidMs;
    for (const [process, { atMs }] of this.#reports) if (atMs < sinceMs) this.receive(process, []);
    const all: [string, number][] = [];
    for (const [node, { inFlight }] of this.#nodes) if (inFlight > 0) all.push([node, inFlight]);
    return all;
  }

  /** Replaces the load that another gateway reported before. */
  receive(process: string, loads: PlacementReport['loads']): void {
    const before = this.#reports.get(process)?.loads ?? [];
    this.#reports.delete(process);
    if (loads.length > 0 && this.#reports.size < reportsMax) {
      this.#reports.set(process, { atMs: this.#now(), loads });
      this.#addReported(loads, 1);
    }
    // After that, so that a node that stays busy keeps its place in the map.
    this.#addReported(before, -1);
  }

  #addReported(loads: PlacementReport['loads'], times: 1 | -1): void {
    for (const [node, inFlight] of loads) {
      const sum = (this.#reported.get(node) ?? 0) + times * inFlight;
      if (sum > 0) this.#reported.set(node, sum);
      else this.#reported.delete(node);
    }
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

  /** `awaitsAnswer`: whether silence of the node says that it hangs. */
  begin(node: string, awaitsAnswer = true): void {
    let state = this.#nodes.get(node);
    if (state === undefined) {
      if (this.#nodes.size >= this.#nodesMax) this.#forgetIdle();
      state = {
        ...{ inFlight: 0, broken: 0, suspectOwners: [], ejections: 0, ejectedUntilMs: 0 },
        ...{ unanswered: 0, unansweredSinceMs: 0, lastUsedMs: 0 },
      };
      this.#nodes.set(node, state);
    }
    state.inFlight += 1;
    if (awaitsAnswer) this.#awaitAnswer(state);
  }

  /** The node begins to answer a request, or sends a further event of one. */
  answering(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined || state.unanswered === 0) return;
    if (isHanging(state, this.#now())) {
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    }
    state.unanswered = 0;
  }

  /** Some of the nodes that have answered none of their requests for a while. */
  hanging(): string[] {
    const nowMs = this.#now();
    return [...this.#nodes]
      .filter(([, state]) => isHanging(state, nowMs) && nowMs - state.lastUsedMs < reportedMs)
      .map(([node]) => node)
      .slice(0, reportedMax);
  }

  /** Exactly once for each `begin`. `owner`: the tenant whose request it was. */
  end(node: string, outcome: NodeOutcome, owner = ''): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    state.inFlight -= 1;
    state.lastUsedMs = this.#now();
    if (outcome === 'answered') {
      state.unanswered = 0;
      if (state.broken > 0) state.suspectOwners = [];
      state.broken = 0;
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    } else if (outcome === 'broken' || (outcome === 'suspect' && isNewSuspect(state, owner))) {
      state.broken += 1;
      if (state.broken >= brokenInARowMax) this.#eject(state);
    } else if (outcome === 'unreached') {
      // It was not asked.
      state.unanswered = 0;
      this.#eject(state);
    }
  }

  /** Ejects a node that hangs, so that about one request at a time tries it again. */
  #awaitAnswer(state: NodeState): void {
    const nowMs = this.#now();
    const isApart = state.inFlight === 1 && nowMs - state.lastUsedMs > hangMs;
    if (state.unanswered === 0 || (isApart && !isHanging(state, nowMs))) {
      state.unanswered = 0;
      state.unansweredSinceMs = nowMs;
    }
    state.unanswered += 1;
    state.lastUsedMs = nowMs;
    if (isHanging(state, nowMs)) this.#eject(state, nowMs - state.unansweredSinceMs);
  }

  /** Nothing has to be remembered of a node that is idle and well, so the map is bounded by those that are not. */
  #forgetIdle(): void {
    for (const [node, { inFlight, broken, ejections }] of this.#nodes)
      if (inFlight === 0 && broken === 0 && ejections === 0) this.#nodes.delete(node);
    // So that many nodes in use are not walked each time.
    this.#nodesMax = Math.max(idleNodesMax, 2 * this.#nodes.size);
  }

  #eject(state: NodeState, ms = ejectionFirstMs * 2 ** state.ejections): void {
    // Requests that were under way when the node was ejected are no new evidence.
    if (state.ejectedUntilMs > this.#now()) return;
    state.ejectedUntilMs = this.#now() + Math.min(ms, ejectionMaxMs);
    this.#ejectedUntilMs = Math.max(this.#ejectedUntilMs, state.ejectedUntilMs);
    state.ejections += 1;
    state.broken = 0;
    state.suspectOwners = [];
  }
}

function isHanging({ unanswered, unansweredSinceMs }: NodeState, nowMs: number): boolean {
  return unanswered >= unansweredMin && nowMs - unansweredSinceMs >= hangMs;
}

/** More owners than it takes to eject a node are not remembered. */
function isNewSuspect(state: NodeState, owner: string): boolean {
  const { suspectOwners } = state;
  if (suspectOwners.length >= brokenInARowMax || suspectOwners.includes(owner)) return false;
  state.suspectOwners = [...suspectOwners, owner];
  return true;
}

/**
 * Writes observations of nodes to the log: it claims nodes for this replica, and reports changes of their health. Each claim
 * raises a node's generation by 1, so the log accepts only one of several claims, and the fold ignores reports from replicas
 * that do not own the node. Reports that arrive during a write are combined into the next commit.
 */
import { randomUUID } from 'node:crypto';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { replicaAuthor } from '../../schemas/shapes.ts';
import type { Statement } from '../../shared/runtime/sqlite.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { CommandWriter } from '../commands/command-writer.ts';
import { differs, type Health, isForLog, type NodeRow, partForLog } from './node-health.ts';
import { nodeLogLimits } from './node-limits.ts';
import { Takeovers } from './takeovers.ts';

/** Facts that the log should contain about one node. */
interface PendingReport {
  /** Whether to claim the node even if another replica owns it. */
  readonly claim: boolean;
  readonly health: Health | undefined;
}

/** Maximum number of nodes in one commit. Its bytes are limited too, because commits of any kind may have at most 900 KB. */
const nodesPerCommitMax = 500;
const bytesPerCommitMax = 500_000;

export class NodeReporter {
  /** Name of this replica, by which the log identifies it as an owner. */
  readonly owner: string;
  readonly #writer: CommandWriter;
  readonly #byId: Statement<[string], NodeRow>;
  readonly #all: Statement<[number], NodeRow>;
  readonly #catalog: Statement<[], { readonly id: string }>;
  readonly #takeovers = new Takeovers();
  /** Ids of the models in the catalog. Undefined after a change of the catalog, until they are next needed. */
  #models: ReadonlySet<string> | undefined;
  #pending = new Map<string, PendingReport>();
  #next: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(owner: string, snapshot: Snapshot, writer: CommandWriter) {
    this.owner = owner;
    this.#writer = writer;
    this.#byId = snapshot.db.prepare<[string], NodeRow>('SELECT * FROM node WHERE id = ?');
    this.#all = snapshot.db.prepare<[number], NodeRow>('SELECT * FROM node WHERE agent = ?');
    this.#catalog = snapshot.db.prepare<[], { readonly id: string }>('SELECT id FROM model');
  }

  node(id: string): NodeRow | undefined {
    return this.#byId.get(id);
  }

  nodes(kind: 'agent' | 'probed'): NodeRow[] {
    return this.#all.all(kind === 'agent' ? 1 : 0);
  }

  /** Whether the node may be claimed now. False if this replica took it only a moment ago and others contend for it. */
  mayClaim(id: string): boolean {
    const owner = this.node(id)?.owner ?? null;
    return owner === null || owner === this.owner || this.#takeovers.mayTake(id);
  }

  /** Claims the node. Returns whether this replica then owns it. Rejects with `CommandError` if the log cannot be written. */
  async claim(id: string): Promise<boolean> {
    if (!this.mayClaim(id)) return false;
    await this.#enqueue(id, { claim: true, health: undefined });
    return this.node(id)?.owner === this.owner;
  }

  /** Claims the node if another replica owns it, and reports its health. Writes nothing that the log already contains. */
  claimAndReport(id: string, health: Health): Promise<void> {
    return this.#enqueue(id, { claim: true, health });
  }

  /** Reports the node's health. Does nothing if the log already contains it or this replica does not own the node. */
  reportHealth(id: string, health: Health): Promise<void> {
    return this.#enqueue(id, { claim: false, health });
  }

  /** Discards the cached catalog. Call it after commits that may have changed the catalog. */
  catalogMoved(): void {
    this.#models = undefined;
  }

  /** Splits the observed health into the part for the log and some of the other model names. */
  partForLog(node: NodeRow, health: Health): ReturnType<typeof partForLog> {
    return partForLog(health, this.#isForLog(node), nodeLogLimits.reportBytesMax);
  }

  differs(id: string, health: Health): boolean {
    const node = this.node(id);
    return node !== undefined && differs(node, health, this.#isForLog(node));
  }

  #isForLog(node: NodeRow): (name: string) => boolean {
    this.#models ??= new Set(this.#catalog.all().map(({ id }) => id));
    const models = this.#models;
    return isForLog(node, (name) => models.has(name));
  }

  /** Queues a report. Only the latest health is written, but a queued claim stays even if a later report does not claim. */
  #enqueue(id: string, report: PendingReport): Promise<void> {
    const before = this.#pending.get(id);
    this.#pending.set(id, {
      claim: report.claim || (before?.claim ?? false),
      health: report.health === undefined ? before?.health : this.#withLastLoaded(id, report.health),
    });
    this.#next ??= this.#running.then(() => this.#commitAll());
    return this.#next;
  }

  /** Keeps the models of an organisation's own node while it is down, so that requests are refused because of the outage. */
  #withLastLoaded(id: string, health: Health): Health {
    const node = health.up ? undefined : this.node(id);
    if (!node?.place.startsWith('organisation:')) return health;
    return { ...health, models: parseColumn(node.loaded) };
  }

  async #commitAll(): Promise<void> {
    const reports = [...this.#pending];
    this.#pending = new Map();
    this.#next = undefined;
    const work = this.#commitSlices(reports);
    this.#running = work.catch(() => undefined);
    await work;
  }

  async #commitSlices(reports: readonly (readonly [string, PendingReport])[]): Promise<void> {
    for (let from = 0; from < reports.length; ) {
      const to = sliceEnd(reports, from);
      const slice = reports.slice(from, to);
      let written: readonly KnownEvent[] = [];
      const events = () => {
        written = slice.flatMap(([id, report]) => this.#events(id, report));
        return written;
      };
      await this.#writer.write(randomUUID(), replicaAuthor(this.owner), events, 'agent');
      for (const { type, data } of written) if (type === 'node.joined') this.#takeovers.count(data.id);
      from = to;
    }
  }

  #events(id: string, { claim, health }: PendingReport): KnownEvent[] {
    const node = this.node(id);
    if (!node) return [];
    const mine = node.owner === this.owner;
    if (!mine && !claim) return [];
    const generation = node.generation + (mine ? 0 : 1);
    const claimed: KnownEvent[] = mine
      ? []
      : [{ type: 'node.joined', data: { id, owner: this.owner, generation } }];
    if (health === undefined || !differs(node, health, this.#isForLog(node))) return claimed;
    const { up, models, windows, imageModels, rerankModels, reason } = health;
    const images = imageModels.length > 0 && { imageModels: [...imageModels] };
    const rerankers = rerankModels.length > 0 && { rerankModels: [...rerankModels] };
    const found = { models: [...models], windows, ...images, ...rerankers };
    const data = { id, owner: this.owner, generation, up, ...found };
    return [
      ...claimed,
      { type: 'node.health_changed', data: reason === undefined ? data : { ...data, reason } },
    ];
  }
}

/** Returns the end of the slice of reports that begins at `from` and fits one commit. It contains at least one report. */
function sliceEnd(reports: readonly (readonly [string, PendingReport])[], from: number): number {
  let bytes = 0;
  let to = from;
  while (to < reports.length && to - from < nodesPerCommitMax) {
    bytes += JSON.stringify(reports[to]).length + 200;
    if (bytes > bytesPerCommitMax && to > from) break;
    to++;
  }
  return to;
}

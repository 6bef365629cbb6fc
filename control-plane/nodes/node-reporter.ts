/**
 * Brings what was observed of nodes into the log: claims nodes for this replica, and tells transitions only.
 * A claim is unique by the chain (generation + 1); the fold ignores reports of anybody but the owner, so a replica that
 * lost a node without noticing can do no harm. What is wished while a commit is under way goes into the next one
 * together, so that many nodes that move at once cost few commits.
 */
import { randomUUID } from 'node:crypto';
import type { KnownEvent } from '../../schemas/events.ts';
import { replicaAuthor } from '../../schemas/shapes.ts';
import type { Statement } from '../../shared/runtime/sqlite.ts';
import { parseColumn } from '../../shared/runtime/table-columns.ts';
import { textOfNames } from '../../shared/snapshot/fold-capacity.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { CommandWriter } from '../command-log/command-writer.ts';

export type NodeRow = RowOf<'node'>;

export interface Health {
  readonly up: boolean;
  readonly models: readonly string[];
  readonly windows: Readonly<Record<string, number>>;
  readonly imageModels: readonly string[];
  readonly reason?: string | undefined;
}

/** What should stand in the log of one node. */
interface Wish {
  /** Also where another replica owns it. */
  readonly claim: boolean;
  readonly health: Health | undefined;
}

/** Nodes and bytes that one commit speaks of; a commit has at most 900 KB. */
const nodesPerCommitMax = 500;
const bytesPerCommitMax = 500_000;

export class NodeReporter {
  /** Name of this replica, as it stands in the log. */
  readonly owner: string;
  readonly #writer: CommandWriter;
  readonly #byId: Statement<[string], NodeRow>;
  readonly #all: Statement<[number], NodeRow>;
  #wishes = new Map<string, Wish>();
  #next: Promise<void> | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(owner: string, snapshot: Snapshot, writer: CommandWriter) {
    this.owner = owner;
    this.#writer = writer;
    this.#byId = snapshot.db.prepare<[string], NodeRow>('SELECT * FROM node WHERE id = ?');
    this.#all = snapshot.db.prepare<[number], NodeRow>('SELECT * FROM node WHERE agent = ?');
  }

  node(id: string): NodeRow | undefined {
    return this.#byId.get(id);
  }

  nodes(kind: 'agent' | 'probed'): NodeRow[] {
    return this.#all.all(kind === 'agent' ? 1 : 0);
  }

  /** True once this replica owns the node. Rejects with CommandError where the log cannot be written. */
  async claim(id: string): Promise<boolean> {
    await this.#wish(id, { claim: true, health: undefined });
    return this.node(id)?.owner === this.owner;
  }

  /** Claims the node where another has it, and tells how it is; either is left out where it stands so already. */
  claimAndTell(id: string, health: Health): Promise<void> {
    return this.#wish(id, { claim: true, health });
  }

  /** Tells the log if it differs from what stands there; nothing where the node is not ours. */
  tell(id: string, health: Health): Promise<void> {
    return this.#wish(id, { claim: false, health });
  }

  /** Is there anything to tell? */
  differs(id: string, health: Health): boolean {
    const node = this.node(id);
    return node !== undefined && differs(node, health);
  }

  /** The last health wished for counts; a claim is not taken back by what is told after it. */
  #wish(id: string, wish: Wish): Promise<void> {
    const before = this.#wishes.get(id);
    this.#wishes.set(id, {
      claim: wish.claim || (before?.claim ?? false),
      health: wish.health === undefined ? before?.health : this.#withLastLoaded(id, wish.health),
    });
    this.#next ??= this.#running.then(() => this.#commitAll());
    return this.#next;
  }

  /** An organisation whose own node is down is to read of an outage, so what the node had loaded last stays in the log. */
  #withLastLoaded(id: string, health: Health): Health {
    const node = health.up ? undefined : this.node(id);
    if (!node?.place.startsWith('organisation:')) return health;
    return { ...health, models: parseColumn(node.loaded) };
  }

  async #commitAll(): Promise<void> {
    const wishes = [...this.#wishes];
    this.#wishes = new Map();
    this.#next = undefined;
    const work = this.#commitSlices(wishes);
    this.#running = work.catch(() => undefined);
    await work;
  }

  async #commitSlices(wishes: readonly (readonly [string, Wish])[]): Promise<void> {
    for (let from = 0; from < wishes.length; ) {
      const to = sliceEnd(wishes, from);
      const slice = wishes.slice(from, to);
      const events = () => slice.flatMap(([id, wish]) => this.#events(id, wish));
      await this.#writer.write(randomUUID(), replicaAuthor(this.owner), events);
      from = to;
    }
  }

  #events(id: string, { claim, health }: Wish): KnownEvent[] {
    const node = this.node(id);
    if (!node) return [];
    const mine = node.owner === this.owner;
    if (!mine && !claim) return [];
    const generation = node.generation + (mine ? 0 : 1);
    const claimed: KnownEvent[] = mine
      ? []
      : [{ type: 'node.joined', data: { id, owner: this.owner, generation } }];
    if (health === undefined || !differs(node, health)) return claimed;
    const { up, models, windows, imageModels, reason } = health;
    const images = imageModels.length > 0 && { imageModels: [...imageModels] };
    const data = { id, owner: this.owner, generation, up, models: [...models], windows, ...images };
    return [
      ...claimed,
      { type: 'node.health_changed', data: reason === undefined ? data : { ...data, reason } },
    ];
  }
}

/** Where the slice ends that begins at `from`: always behind one wish at least. */
function sliceEnd(wishes: readonly (readonly [string, Wish])[], from: number): number {
  let bytes = 0;
  let to = from;
  while (to < wishes.length && to - from < nodesPerCommitMax) {
    bytes += JSON.stringify(wishes[to]).length + 200;
    if (bytes > bytesPerCommitMax && to > from) break;
    to++;
  }
  return to;
}

/** What the log says of a node; undefined where nobody has told yet. */
export function toldOf(node: NodeRow): boolean | undefined {
  return node.changed_at === null ? undefined : node.up === 1;
}

function differs(node: NodeRow, health: Health): boolean {
  if ((node.up === 1) !== health.up) return true;
  if (!health.up) return node.changed_at === null;
  return (
    node.loaded !== textOfNames(health.models) ||
    node.windows !== JSON.stringify(health.windows) ||
    node.image_models !== textOfNames(health.imageModels)
  );
}

/**
 * Brings what was observed of a node into the log: claims the node for this replica, and tells transitions only.
 * A claim is unique by the chain (generation + 1); the fold ignores reports of anybody but the owner, so a replica that
 * lost a node without noticing can do no harm.
 */
import { randomUUID } from 'node:crypto';
import type { KnownEvent } from '../../schemas/events.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { RowOf } from '../../shared/snapshot/tables.ts';
import type { Statement } from '../../shared/sqlite.ts';
import type { Command, CommandPath } from '../command-path.ts';

export type NodeRow = RowOf<'node'>;

export interface Health {
  readonly up: boolean;
  readonly models: readonly string[];
  readonly windows: Readonly<Record<string, number>>;
  readonly reason?: string | undefined;
}

export class NodeReporter {
  /** Name of this replica, as it stands in the log. */
  readonly owner: string;
  readonly #path: CommandPath;
  readonly #byId: Statement;
  readonly #all: Statement;

  constructor(owner: string, snapshot: Snapshot, path: CommandPath) {
    this.owner = owner;
    this.#path = path;
    this.#byId = snapshot.db.prepare('SELECT * FROM node WHERE id = ?');
    this.#all = snapshot.db.prepare('SELECT * FROM node WHERE agent = ?');
  }

  node(id: string): NodeRow | undefined {
    return this.#byId.get(id) as NodeRow | undefined;
  }

  nodes(kind: 'agent' | 'probed'): NodeRow[] {
    return this.#all.all(kind === 'agent' ? 1 : 0) as NodeRow[];
  }

  /** True once this replica owns the node. */
  async claim(id: string): Promise<boolean> {
    await this.#run(() => {
      const node = this.node(id);
      if (!node || node.owner === this.owner) return [];
      return [
        { type: 'node.joined', data: { id, owner: this.owner, generation: Number(node.generation) + 1 } },
      ];
    });
    return this.node(id)?.owner === this.owner;
  }

  /** Tells the log if it differs from what stands there; nothing where the node is no longer ours. */
  async tell(id: string, health: Health): Promise<void> {
    await this.#run(() => {
      const node = this.node(id);
      if (node?.owner !== this.owner || !differs(node, health)) return [];
      const { up, models, windows, reason } = health;
      const data = {
        id,
        owner: this.owner,
        generation: Number(node.generation),
        up,
        models: [...models],
        windows,
      };
      return [{ type: 'node.health_changed', data: reason === undefined ? data : { ...data, reason } }];
    });
  }

  async #run(events: () => KnownEvent[]): Promise<void> {
    const id = randomUUID();
    const command: Command<void> = {
      id,
      hash: id,
      by: this.owner,
      decide: () => ({ events: events(), result: () => undefined }),
      repeated: () => undefined,
    };
    await this.#path.run(command);
  }
}

function differs(node: NodeRow, health: Health): boolean {
  if ((node.up === 1) !== health.up) return true;
  if (!health.up) return node.changed_at === null;
  const loaded = JSON.stringify([...new Set(health.models)].sort());
  return node.loaded !== loaded || node.windows !== JSON.stringify(health.windows);
}

/**
 * The changes that a fleet file needs, as events in an order that the fold accepts, and as a list for people.
 * What exists as the file declares it needs neither: applying a file twice changes nothing the second time.
 */
import type { FleetChange } from '../../schemas/admin.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { sameData } from './preconditions.ts';

type FleetKind = FleetChange['kind'];

/** Dependents before what they depend on. */
const removalOrder: readonly FleetKind[] = [
  'node',
  'install',
  'stack',
  'member',
  'organisation',
  'tier',
  'model',
];

export class FleetPlan {
  readonly #sets: KnownEvent[] = [];
  readonly #removals: { readonly kind: FleetKind; readonly event: KnownEvent }[] = [];
  readonly #changes: FleetChange[] = [];

  /** Sets a resource to `after`, which is what the event does. */
  put(kind: FleetKind, id: string, before: object | undefined, after: object, event: KnownEvent): void {
    if (!before) {
      this.#sets.push(event);
      this.#changes.push({ action: 'create', kind, id });
      return;
    }
    const fields = differing(before, after);
    if (fields.length === 0) return;
    this.#sets.push(event);
    const [was, is] = [before, after] as Record<string, unknown>[];
    const values = fields.map((field) => ({ field, before: was?.[field], after: is?.[field] }));
    this.#changes.push({ action: 'change', kind, id, fields, values });
  }

  remove(kind: FleetKind, id: string, event: KnownEvent): void {
    this.#removals.push({ kind, event });
    this.#changes.push({ action: 'remove', kind, id });
  }

  get changes(): readonly FleetChange[] {
    return this.#changes;
  }

  /** Everything is set before anything is removed, so that a node can leave a stack that is removed. */
  get events(): KnownEvent[] {
    const removals = removalOrder.flatMap((kind) =>
      this.#removals.filter((removal) => removal.kind === kind).map(({ event }) => event),
    );
    return [...this.#sets, ...removals];
  }
}

function differing(before: object, after: object): string[] {
  const was = new Map<string, unknown>(Object.entries(before));
  const is = new Map<string, unknown>(Object.entries(after));
  return [...new Set([...was.keys(), ...is.keys()])].filter((name) => !sameData(was.get(name), is.get(name)));
}

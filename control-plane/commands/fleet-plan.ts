/**
 * What a fleet file asks for, collected as events in an order that the fold accepts, with the changes told to people.
 * What is there as the file says makes neither: applying a file twice changes nothing the second time.
 */
import type { KnownEvent } from '../../schemas/events.ts';
import { sameData } from './preconditions.ts';

export type FleetKind =
  | 'model'
  | 'tier'
  | 'anonymous'
  | 'organisation'
  | 'member'
  | 'stack'
  | 'install'
  | 'node';

export interface FleetChange {
  readonly action: 'create' | 'change' | 'remove';
  readonly kind: FleetKind;
  /** `<organisation>/<person>` of a member, `pool/<model>` or `<stack>/<model>` of an install. */
  readonly id: string;
  /** Names of the fields that change. */
  readonly fields?: readonly string[];
}

/** From what hangs on others to what others hang on. */
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

  /** The thing shall be as `after` says; the event makes it so. */
  put(kind: FleetKind, id: string, before: object | undefined, after: object, event: KnownEvent): void {
    if (!before) {
      this.#sets.push(event);
      this.#changes.push({ action: 'create', kind, id });
      return;
    }
    const fields = differing(before, after);
    if (fields.length === 0) return;
    this.#sets.push(event);
    this.#changes.push({ action: 'change', kind, id, fields });
  }

  remove(kind: FleetKind, id: string, event: KnownEvent): void {
    this.#removals.push({ kind, event });
    this.#changes.push({ action: 'remove', kind, id });
  }

  get changes(): readonly FleetChange[] {
    return this.#changes;
  }

  /** Everything is set before anything is removed, so that a node can leave a stack that goes. */
  get events(): KnownEvent[] {
    const removals = removalOrder.flatMap((kind) =>
      this.#removals.filter((removal) => removal.kind === kind).map(({ event }) => event),
    );
    return [...this.#sets, ...removals];
  }
}

function differing(before: object, after: object): string[] {
  const was = before as Record<string, unknown>;
  const is = after as Record<string, unknown>;
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].filter(
    (name) => !sameData(was[name], is[name]),
  );
}

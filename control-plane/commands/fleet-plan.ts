/** Changes that a fleet document requires, as ordered events and as a list for people. Omits what already matches. */
import type { FleetChange } from '../../schemas/admin/admin.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { sameData } from './preconditions.ts';

type FleetKind = FleetChange['kind'];

/** Kinds of resources in order of removal. Dependents come before the resources that they depend on. */
const removalOrder: readonly FleetKind[] = [
  'node',
  'install',
  'stack',
  'member',
  'organisation',
  'tier',
  'anonymous',
  'model',
];

interface FleetStep {
  readonly event: KnownEvent;
  readonly change: FleetChange;
}

export class FleetPlan {
  readonly #sets: FleetStep[] = [];
  readonly #removals: FleetStep[] = [];
  readonly #changes: FleetChange[] = [];

  /** Plans to set a resource to `after` by means of `event`. Adds nothing if `before` already equals `after`. */
  put(kind: FleetKind, id: string, before: object | undefined, after: object, event: KnownEvent): void {
    if (!before) {
      this.#add(this.#sets, { event, change: { action: 'create', kind, id } });
      return;
    }
    const fields = differing(before, after);
    if (fields.length === 0) return;
    const [was, is] = [before, after] as Record<string, unknown>[];
    const values = fields.map((field) => ({ field, before: was?.[field], after: is?.[field] }));
    this.#add(this.#sets, { event, change: { action: 'change', kind, id, fields, values } });
  }

  remove(kind: FleetKind, id: string, event: KnownEvent): void {
    this.#add(this.#removals, { event, change: { action: 'remove', kind, id } });
  }

  #add(steps: FleetStep[], step: FleetStep): void {
    steps.push(step);
    this.#changes.push(step.change);
  }

  /** Changes in the order of the document, followed by removals. */
  get changes(): readonly FleetChange[] {
    return this.#changes;
  }

  /** Steps in execution order. Resources are set before any is removed, so that nodes leave a stack before it is removed. */
  get steps(): readonly FleetStep[] {
    const removals = removalOrder.flatMap((kind) =>
      this.#removals.filter(({ change }) => change.kind === kind),
    );
    return [...this.#sets, ...removals];
  }
}

function differing(before: object, after: object): string[] {
  const [was, is] = [before, after] as Record<string, unknown>[];
  const added = Object.keys(after).filter((name) => !Object.hasOwn(before, name));
  return [...Object.keys(before), ...added].filter((name) => !sameData(was?.[name], is?.[name]));
}

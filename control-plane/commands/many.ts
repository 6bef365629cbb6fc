/** Helpers for bulk commands. They derive the ids of the created resources, and refuse items that name missing resources. */
import { derivedId } from '../../shared/ids/api-key.ts';
import { CommandError } from '../core/command-error.ts';

const detailsMax = 200;

/** Derives further ids from the first one, so that a repeated command, whose first id is in the log, gets the same ids. */
export function numberedIds(kind: string, first: string, count: number): string[] {
  const others = Array.from({ length: count - 1 }, (_, index) => derivedId(kind, `${first} ${index + 1}`));
  return [first, ...others];
}

export interface ItemReference {
  /** Name of the field in each item that contains the resource's id. */
  readonly field: string;
  readonly what: string;
  /** The CLI's word for this kind of resource. */
  readonly noun: string;
  isThere(id: string): boolean;
}

/** Throws a `NotFound` error, which lists every item whose resource does not exist. */
export function needAll(ids: readonly string[], { field, what, noun, isThere }: ItemReference): void {
  const there = new Map<string, boolean>();
  const details = ids.flatMap((id, index) => {
    if (!there.has(id)) there.set(id, isThere(id));
    return there.get(id) ? [] : [{ path: `items[${index}].${field}`, message: `there is no ${what} ${id}` }];
  });
  const [first] = details;
  if (first)
    throw new CommandError('NotFound', `${first.path}: ${first.message}`, {
      next: `headgate ${noun} list shows what exists`,
      details: details.slice(0, detailsMax),
    });
}

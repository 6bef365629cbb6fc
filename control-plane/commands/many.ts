/** What commands that create many resources at once have in common: their ids, and the refusal of items that name what is not there. */
import { derivedId } from '../../shared/ids/api-key.ts';
import { CommandError } from '../core/command-error.ts';

const detailsMax = 200;

/**
 * The ids of what one command creates: all follow from the first, which is what a repeat of the command is known by. Ids are no
 * secrets, and these are as unlikely to be there already as those that are drawn.
 */
export function numberedIds(kind: string, first: string, count: number): string[] {
  const others = Array.from({ length: count - 1 }, (_, index) => derivedId(kind, `${first} ${index + 1}`));
  return [first, ...others];
}

export interface Named {
  /** The field of an item that names it. */
  readonly field: string;
  readonly what: string;
  /** The CLI's. */
  readonly noun: string;
  isThere(id: string): boolean;
}

/** Throws CommandError NotFound that names each item whose resource is not there. */
export function needAll(ids: readonly string[], { field, what, noun, isThere }: Named): void {
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

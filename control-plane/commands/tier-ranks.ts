/**
 * The order of tiers as ranks. A file lists tiers lowest first. Only their order counts: ranks that already have it are
 * kept, and a tier that the file does not list stays directly above the same tier as before.
 */
import type { Tier } from '../../schemas/admin/admin.ts';

const rankMax = 1000;

/** Ranks for the listed tiers and those present, strictly rising in the wanted order. */
export function rankTiers(present: readonly Tier[], listed: readonly string[]): Map<string, number> {
  const order = merged(
    present.map(({ id }) => id),
    listed,
  );
  const before = new Map(present.map(({ id, rank }) => [id, rank]));
  const ranks = new Map<string, number>();
  let last = -1;
  for (const id of order) {
    last = Math.max(before.get(id) ?? 0, last + 1);
    ranks.set(id, last);
  }
  return last <= rankMax ? ranks : new Map(order.map((id, index) => [id, index]));
}

function merged(present: readonly string[], listed: readonly string[]): string[] {
  const order = [...listed];
  for (const [index, id] of present.entries()) {
    if (order.includes(id)) continue;
    const below = present[index - 1];
    order.splice(below === undefined ? 0 : order.indexOf(below) + 1, 0, id);
  }
  return order;
}

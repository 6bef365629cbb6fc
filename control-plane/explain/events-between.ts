/** Finds the events that caused the difference between two explanations of a request, oldest first. */
import type { Because, Explanation } from '../../schemas/records/explanations.ts';

export function eventsBetween(from: Explanation, to: Explanation, steps: readonly string[]): Because[] {
  const found = to.steps
    .filter(({ step }) => steps.includes(step))
    .flatMap(({ because }) => (because !== undefined && because.position > from.at ? [because] : []));
  const byPosition = new Map(found.map((because) => [`${because.position} ${because.type}`, because]));
  return [...byPosition.values()].sort((a, b) => a.position - b.position);
}

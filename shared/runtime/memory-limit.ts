/**
 * Scales memory budgets to the memory that this process may use. Budgets assume 4 GiB, as in the Helm chart. Under a smaller
 * limit, all budgets shrink by the same factor, so that no caller can make the kernel kill the process.
 */
const sizedForBytes = 4 * 1024 ** 3;

/** Memory in bytes that this process may use, or undefined if it is at least the amount that budgets assume. */
export function memoryMax(max = process.constrainedMemory()): number | undefined {
  return max > 0 && max < sizedForBytes ? max : undefined;
}

/** Reduces a budget in proportion to this process's memory limit. */
export function withinMemory(budget: number, max = memoryMax()): number {
  return max === undefined ? budget : Math.max(1, Math.floor((budget * max) / sizedForBytes));
}

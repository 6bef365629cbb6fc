/**
 * Fits memory budgets to this process's memory limit. They are sized for 4 GiB, as in the Helm chart; under a smaller limit
 * all shrink by the same factor, so that no caller can make the kernel kill the process.
 */
const sizedForBytes = 4 * 1024 ** 3;

/** Memory that this process may use, in bytes; undefined if it is at least what the budgets are sized for. */
export function memoryMax(max = process.constrainedMemory()): number | undefined {
  return max > 0 && max < sizedForBytes ? max : undefined;
}

/** Shrinks a budget to this process's memory limit. */
export function withinMemory(budget: number, max = memoryMax()): number {
  return max === undefined ? budget : Math.max(1, Math.floor((budget * max) / sizedForBytes));
}

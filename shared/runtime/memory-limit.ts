/**
 * Budgets of memory, sized by the limit that the system sets for this process. They are written for a process that may use 4 GiB,
 * as the Helm chart allows; with less, each shrinks by the same factor, so that no caller can make the system end the process.
 */
import { environment } from './settings.ts';

const sizedForBytes = 4 * 1024 ** 3;
/** Set by the parent of worker processes, which share one limit. */
export const processCountVariable = 'WORKER_PROCESS_COUNT';

/** Memory that this process may use, in bytes; undefined if the system does not limit it to less than the budgets are sized for. */
export function memoryMax(
  constrained = process.constrainedMemory(),
  processes = Number(environment[processCountVariable] ?? 1),
): number | undefined {
  const max = constrained / processes;
  return max > 0 && max < sizedForBytes ? max : undefined;
}

/** The part of a budget that fits into the memory of this process. */
export function withinMemory(budget: number, max = memoryMax()): number {
  return max === undefined ? budget : Math.max(1, Math.floor((budget * max) / sizedForBytes));
}

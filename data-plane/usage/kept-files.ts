/** Renames or copies files whose rows cannot be billed, so that people can examine them. */
import { copyFileSync, renameSync } from 'node:fs';

export function keepAside(paths: readonly string[], nowMs: number): string[] {
  return paths.map((path) => {
    renameSync(path, nameOf(path, nowMs));
    return nameOf(path, nowMs);
  });
}

/** Copies a file whose rows cannot be billed but which must also stay in its place. */
export function keepCopy(path: string, nowMs: number): string {
  copyFileSync(path, nameOf(path, nowMs));
  return nameOf(path, nowMs);
}

function nameOf(path: string, nowMs: number): string {
  return `${path}.damaged-${nowMs}`;
}

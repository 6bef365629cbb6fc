/** Files that cannot be billed, kept for people under other names. */
import { copyFileSync, renameSync } from 'node:fs';

export function keepAside(paths: readonly string[], nowMs: number): string[] {
  return paths.map((path) => {
    renameSync(path, nameOf(path, nowMs));
    return nameOf(path, nowMs);
  });
}

/** The file itself is needed still. */
export function keepCopy(path: string, nowMs: number): string {
  copyFileSync(path, nameOf(path, nowMs));
  return nameOf(path, nowMs);
}

function nameOf(path: string, nowMs: number): string {
  return `${path}.damaged-${nowMs}`;
}

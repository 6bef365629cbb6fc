/**
 * The version of this build: that of package.json, in the folder above the sources or above `dist`, and behind a plus the commit of
 * which `tools/scripts/build.mjs` made it, where it knew one.
 */
import { existsSync, readFileSync } from 'node:fs';

let known: string | undefined;

/** Read once: a package that is replaced while a process runs does not change what runs. */
export function version(): string {
  known ??= readVersion();
  return known;
}

function readVersion(): string {
  const release = findMember(['../../package.json', '../../../package.json'], 'version');
  if (release === undefined) return 'unknown';
  // Only `dist` has it: sources are of no build.
  const commit = findMember(['../../build.json'], 'commit');
  return commit === undefined ? release : `${release}+${commit}`;
}

/** Of the first of these JSON files that is there. */
function findMember(places: readonly string[], name: string): string | undefined {
  const found = places.map((path) => new URL(path, import.meta.url)).find((place) => existsSync(place));
  if (found === undefined) return undefined;
  const value = (JSON.parse(readFileSync(found, 'utf8')) as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

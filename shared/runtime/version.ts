/** The version of this build, from `package.json`. The commit follows a plus sign if `tools/scripts/build.mjs` knew it. */
import { existsSync, readFileSync } from 'node:fs';

let known: string | undefined;

/** Returns the version, which is read only once, because replacing the package does not change a running process. */
export function version(): string {
  known ??= readVersion();
  return known;
}

function readVersion(): string {
  const release = findMember(['../../package.json', '../../../package.json'], 'version');
  if (release === undefined) return 'unknown';
  // Only `dist` contains this file, so a process that runs from source does not report a commit.
  const commit = findMember(['../../build.json'], 'commit');
  return commit === undefined ? release : `${release}+${commit}`;
}

function findMember(places: readonly string[], name: string): string | undefined {
  const found = places.map((path) => new URL(path, import.meta.url)).find((place) => existsSync(place));
  if (found === undefined) return undefined;
  const value = (JSON.parse(readFileSync(found, 'utf8')) as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

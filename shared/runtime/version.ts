/** The version of this build: from package.json, in the folder above the sources or above `dist`. */
import { existsSync, readFileSync } from 'node:fs';

let known: string | undefined;

/** Read once: a package that is replaced while a process runs does not change what runs. */
export function version(): string {
  known ??= readVersion();
  return known;
}

function readVersion(): string {
  const places = ['../../package.json', '../../../package.json'].map(
    (path) => new URL(path, import.meta.url),
  );
  const found = places.find((place) => existsSync(place));
  return found
    ? String((JSON.parse(readFileSync(found, 'utf8')) as { version?: unknown }).version)
    : 'unknown';
}

/** The version of this build: from package.json, in the folder above the sources or above `dist`. */
import { existsSync, readFileSync } from 'node:fs';

export function version(): string {
  const places = ['../../package.json', '../../../package.json'].map(
    (path) => new URL(path, import.meta.url),
  );
  const found = places.find((place) => existsSync(place));
  return found
    ? String((JSON.parse(readFileSync(found, 'utf8')) as { version?: unknown }).version)
    : 'unknown';
}

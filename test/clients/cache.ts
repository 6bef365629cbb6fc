/** Where the many client libraries stand that the project itself does not depend on: put there by install.mjs. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const folder = resolve('.cache/clients');

/** A path in the cache. Throws where it is not there, and says how it comes there. */
export function cached(path: string): string {
  const whole = resolve(folder, path);
  if (!existsSync(whole)) throw new Error(`${whole} is missing: run node test/clients/install.mjs`);
  return whole;
}

/** The address from which an npm package of the cache is imported; `entry` is its main file. */
export function cachedModule(name: string, entry: string): string {
  return pathToFileURL(cached(`npm/node_modules/${name}/${entry}`)).href;
}

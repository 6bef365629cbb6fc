/** Locates the client libraries that the project itself does not depend on. install.mjs puts them into the cache. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const folder = resolve('.cache/clients');

/** Returns a path in the cache. If it does not exist, throws an error that says how to install it. */
export function cached(path: string): string {
  const whole = resolve(folder, path);
  if (!existsSync(whole)) throw new Error(`${whole} is missing: run node test/clients/install.mjs`);
  return whole;
}

/** Returns the URL from which to import a cached npm package. `entry` is the package's main file. */
export function cachedModule(name: string, entry: string): string {
  return pathToFileURL(cached(`npm/node_modules/${name}/${entry}`)).href;
}

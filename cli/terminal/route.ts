/** Paths of the admin API with ids from the command line. */
import { usageError } from './errors.ts';

/** Builds a path and encodes its parts. Throws a usage error for a part that cannot be an id. */
export function route(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  return strings.reduce((path, text, index) => path + encoded(parts[index - 1] ?? '') + text);
}

function encoded(part: string): string {
  // URL normalisation removes these, so the request would go to another path.
  if (part === '' || part === '.' || part === '..') throw usageError('an id is missing or empty');
  if (/^(?:[a-z]{2,8}_[A-Za-z0-9]{40}|ngt_[A-Za-z0-9_-]{43})$/.test(part))
    throw usageError('this is the value of a key or token, not its id; it was not sent', 'headgate key list');
  return encodeURIComponent(part);
}

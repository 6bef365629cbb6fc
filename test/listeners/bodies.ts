/** Request bodies that cost a listener more than they cost their sender. */

/** Repeats the unit as often as fits into this many bytes. */
function fill(before: string, unit: (n: number) => string, after: string, bytes: number): string {
  const units: string[] = [];
  let left = bytes - before.length - after.length;
  for (let n = 0; ; n++) {
    const one = unit(n);
    left -= one.length + 1;
    if (left < 0) break;
    units.push(one);
  }
  return before + units.join() + after;
}

/**
 * Caches bodies, because building millions of units costs more than sending them, and every listener gets the same bodies.
 */
function kept(make: (bytes: number) => string): (bytes: number) => string {
  const bodies = new Map<number, string>();
  return (bytes) => {
    const body = bodies.get(bytes) ?? make(bytes);
    bodies.set(bytes, body);
    return body;
  };
}

/** Functions that build a JSON text up to a size in bytes, by the kind of content. */
export const shapes: Readonly<Record<string, (bytes: number) => string>> = {
  'numeric names in random order': kept((bytes) =>
    fill('{', (n) => `"${(n * 2654435761) % 4294967291}":0`, '}', bytes),
  ),
  'distinct names': kept((bytes) => fill('{', (n) => `"a${n.toString(36)}":0`, '}', bytes)),
  'objects of one name': kept((bytes) => fill('[', (n) => `{"${n.toString(36)}":0}`, ']', bytes)),
  'empty objects': kept((bytes) => fill('[', () => '{}', ']', bytes)),
  'deep nesting': (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
  numbers: kept((bytes) => fill('[', () => '1e-200', ']', bytes)),
  'a text': (bytes) => `"${'a'.repeat(bytes - 2)}"`,
};

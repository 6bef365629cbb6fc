/** Bodies that cost a listener more than they cost their sender. */

/** As many units as fit. */
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

/** JSON of so many bytes at most, by what it is made of. */
export const shapes: Readonly<Record<string, (bytes: number) => string>> = {
  'numeric names in random order': (bytes) =>
    fill('{', (n) => `"${(n * 2654435761) % 4294967291}":0`, '}', bytes),
  'distinct names': (bytes) => fill('{', (n) => `"a${n.toString(36)}":0`, '}', bytes),
  'objects of one name': (bytes) => fill('[', (n) => `{"${n.toString(36)}":0}`, ']', bytes),
  'empty objects': (bytes) => fill('[', () => '{}', ']', bytes),
  'deep nesting': (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
  numbers: (bytes) => fill('[', () => '1e-200', ']', bytes),
  'a text': (bytes) => `"${'a'.repeat(bytes - 2)}"`,
};

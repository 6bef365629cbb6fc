/** Formats numbers for people. The console and the command line use it, so that they show numbers alike. */

/** Groups digits by thousands, as in `18,240`. Decimals stay as they are. */
export function groupDigits(value: number): string {
  const [whole = '', decimals] = String(value).split('.');
  const text = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return decimals === undefined ? text : `${text}.${decimals}`;
}

/** Returns the number followed by its noun, as in `1 request` or `1200 requests`. */
export function countNoun(value: number, noun: string): string {
  return `${value} ${noun}${value === 1 ? '' : 's'}`;
}

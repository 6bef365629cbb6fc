/** Formats numbers for people, so that the console and the command line show them alike. */

/** Groups the digits by thousands: `18,240`. Decimals stay as they are. */
export function groupDigits(value: number): string {
  const [whole = '', decimals] = String(value).split('.');
  const text = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return decimals === undefined ? text : `${text}.${decimals}`;
}

/** Number followed by its noun: `1 request`, `1200 requests`. */
export function countNoun(value: number, noun: string): string {
  return `${value} ${noun}${value === 1 ? '' : 's'}`;
}

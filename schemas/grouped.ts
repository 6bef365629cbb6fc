/** Numbers as people read them, the same in the console and on the command line. */

/** `18,240`; digits after the point stay as they are. */
export function grouped(value: number): string {
  const [whole = '', decimals] = String(value).split('.');
  const text = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return decimals === undefined ? text : `${text}.${decimals}`;
}

/** A number with its noun, for example `1 request` or `1200 requests`. */
export function counted(value: number, noun: string): string {
  return `${value} ${noun}${value === 1 ? '' : 's'}`;
}

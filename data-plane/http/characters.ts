/** Classes of the bytes that may occur in the head of a message. */

export const token = 1;
export const visible = 2;
export const value = 4;

const symbols = "!#$%&'*+-.^_`|~";

const classes = Uint8Array.from({ length: 256 }, (_, code) => {
  const character = String.fromCharCode(code);
  const isToken = /[0-9A-Za-z]/.test(character) || symbols.includes(character);
  const isVisible = code > 0x20 && code < 0x7f;
  const isValue = code === 0x09 || (code >= 0x20 && code !== 0x7f);
  return (isToken ? token : 0) | (isVisible ? visible : 0) | (isValue ? value : 0);
});

export const tab = 0x09;
export const lineFeed = 0x0a;
export const carriageReturn = 0x0d;
export const space = 0x20;
export const colon = 0x3a;
export const semicolon = 0x3b;
export const equals = 0x3d;

export function isClass(code: number, wanted: number): boolean {
  return ((classes[code] ?? 0) & wanted) !== 0;
}

/** Index of the first character from `at` on that is not in the class, or the text's length. A character is one byte. */
export function spanLength(text: string, at: number, wanted: number): number {
  let next = at;
  while (next < text.length && ((classes[text.charCodeAt(next)] ?? 0) & wanted) !== 0) next++;
  return next;
}

export function isBlank(code: number): boolean {
  return code === space || code === tab;
}

/**
 * A lower bound of the tokens of a text, for the vocabulary of any engine and without a tokeniser (Limits 3).
 * No token of the vocabularies in use has letters or digits on both sides of white space, and each has a bounded number of
 * changing characters. So each word is at least one token, and a long word several. White space, punctuation and repeated
 * characters count as zero, because vocabularies have tokens for long runs of them. The bound is subadditive (the bound of
 * a concatenation is at most the sum of the bounds), so it holds for every text if it is at most 1 for every token.
 */

/** The most that one token can contain, in the units below. */
const unitsPerToken = 72;
const unitsOfAscii = 1;
/** Scripts without spaces between words, from the kana to the end of the ideographs. */
const unitsOfHan = 4;
const unitsOfOther = 3;

/** Linear and cheap for each code unit, because it runs on every prompt. */
export function leastTokens(text: string): number {
  let tokens = 0;
  let units = 0;
  let previous = -1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === previous) continue;
    previous = code;
    if (isSpace(code)) {
      if (units > 0) tokens += Math.ceil(units / unitsPerToken);
      units = 0;
    } else units += code < 0x80 ? asciiUnits(code) : otherUnits(code);
  }
  return tokens + Math.ceil(units / unitsPerToken);
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}

function asciiUnits(code: number): number {
  const letter = code | 0x20;
  const isAlphanumeric = (letter >= 0x61 && letter <= 0x7a) || (code >= 0x30 && code <= 0x39);
  return isAlphanumeric ? unitsOfAscii : 0;
}

/** Controls, spaces, general punctuation and variation selectors count as zero: a tokeniser may drop them. */
function otherUnits(code: number): number {
  if (code >= 0x3040 && code <= 0x9fff) return unitsOfHan;
  const isZero =
    code < 0xc0 ||
    (code >= 0x2000 && code <= 0x2bff) ||
    (code >= 0x3000 && code <= 0x303f) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    code === 0xfeff;
  return isZero ? 0 : unitsOfOther;
}

/**
 * A lower bound of the tokens of a text, for any engine's vocabulary and without a tokeniser (Limits 3).
 * No token of the vocabularies in use holds letters or digits on both sides of white space, and none is longer than a
 * bounded number of changing characters. So each word is at least one token, and a long word several. White space,
 * punctuation and repeated characters may cost nothing, because vocabularies have whole runs of them. The bound of two
 * texts joined is never above the sum of their bounds, so it holds for every text if it is at most 1 for every token.
 */

/** What one token can hold at most, in the units below. */
const unitsPerToken = 72;
const unitsOfAscii = 1;
/** Scripts without spaces between words, from the kana to the end of the ideographs. */
const unitsOfHan = 4;
const unitsOfOther = 3;

/** Linear, and small work for each code unit, because every prompt passes here. */
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

/** Controls, spaces, general punctuation and marks of variation cost nothing: a tokeniser may leave them out. */
function otherUnits(code: number): number {
  if (code >= 0x3040 && code <= 0x9fff) return unitsOfHan;
  const isFree =
    code < 0xc0 ||
    (code >= 0x2000 && code <= 0x2bff) ||
    (code >= 0x3000 && code <= 0x303f) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    code === 0xfeff;
  return isFree ? 0 : unitsOfOther;
}

/**
 * Makes a text safe where it leaves for people: terminals, pages, files. Names and reasons come from outside, and older ones
 * are in the log as they came: a control character or a mark of text direction could repaint the screen or forge a line, and
 * what has no width makes two names look the same.
 */

/** Control characters, line separators, lone surrogates, marks of text direction and what is not seen. */
const unsafe =
  /\u034f|[\p{Cc}\p{Cs}\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e0fff}]/gu;

/** The same text with unsafe characters as `\u001b`, but for those of `kept`; `backslash` is how the format writes one. */
export function printable(text: string, kept = '', backslash = '\\'): string {
  return text.replace(unsafe, (character) => {
    if (kept.includes(character)) return character;
    const units = [...Array(character.length).keys()].map((at) => character.charCodeAt(at));
    return units.map((unit) => `${backslash}u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}

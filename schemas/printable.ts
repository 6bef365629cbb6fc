/**
 * Escapes text for terminals, pages and files. Names and reasons come from outside, and older log entries were not checked. A
 * control character or direction mark could forge a line, and an invisible character could make two names look alike.
 */

/** Control characters, line separators, lone surrogates, direction marks and invisible characters. */
const unsafe =
  /\u034f|[\p{Cc}\p{Cs}\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\u{e0000}-\u{e0fff}]/gu;

/** Escapes unsafe characters as `\u001b`, except those in `kept`. `backslash` is how the output spells a backslash. */
export function printable(text: string, kept = '', backslash = '\\'): string {
  return text.replace(unsafe, (character) => {
    if (kept.includes(character)) return character;
    const units = [...Array(character.length).keys()].map((at) => character.charCodeAt(at));
    return units.map((unit) => `${backslash}u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}
